"""What is right and wrong with an installation, each finding with what to do about it."""
