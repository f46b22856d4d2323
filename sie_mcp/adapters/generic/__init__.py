"""Models that look at images and that transformers runs: they find objects, or write texts."""
