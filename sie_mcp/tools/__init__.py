"""What an agent calls: one file per tool, composed of the three primitives."""
