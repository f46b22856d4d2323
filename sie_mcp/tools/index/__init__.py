"""An index of files by meaning and by words: found, cut into chunks, stored, kept up to date."""
