"""Labels of the caller's own for whole texts: what they mean, and who judges them."""
