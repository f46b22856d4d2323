"""The cache of vectors on the gateway."""
