"""One small reader for each file format, found by a file's ending in `formats`."""
