"""GLiNER: entities of labels that the caller names, over an encoder of any family."""
