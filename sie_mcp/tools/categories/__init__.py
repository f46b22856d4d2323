"""Texts with a category: how a result shows them, and how a long file of them is worked off."""
