"""Names of tensors that several families share, and how a fused tensor's parts are renamed."""

from sie_mcp.adapters.model import Renames

# Where sentence-transformers and PyLate put the encoder when they save all modules in one file.
WRAPPERS = ("0.auto_model.", "model.0.auto_model.", "auto_model.")
# The table of word vectors, ours.
WORD_TABLE = "encoder.embeddings.word.weight"


def fused(checkpoint: str, parts: tuple[str, ...], ours: str) -> Renames:
    """Rename parts of a layer that we keep in one matrix, e.g. query, key and value.

    Args:
        checkpoint: What stands before a part, a regex with the layer's number as its one group.
        parts: Their names, in the order in which they are concatenated.
        ours: The fused tensor's module, with the number as group 1.
    """
    return tuple(
        (rf"{checkpoint}{part}\.(.*)", rf"{ours}.\2#{place}") for place, part in enumerate(parts)
    )
