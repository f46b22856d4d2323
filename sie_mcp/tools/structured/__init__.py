"""Records and relations out of texts: schemas of the caller's in, typed values out."""
