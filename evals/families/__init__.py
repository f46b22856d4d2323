"""Real weights through every family that can have them, against the models' own libraries."""
