"""Ten tasks done twice: with our tools, and by reading files as they are."""
