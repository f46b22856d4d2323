"""From a folder of files to a recipe: what the checkpoint is, and which file decided what."""
