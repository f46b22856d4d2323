"""Checkpoints whose config.json wraps an encoder's: that encoder's settings, and its limit."""

from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.models import transformers_library as library
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

# What such libraries read of a text and its labels where no file says another.
_MAX_LENGTH = 1_024


def encoder_config(given: Any, where: str) -> dict[str, Any]:
    """Return an encoder's settings with all that the file leaves to its family's defaults.

    Raises:
        ModelLoadFailed: none, or of a family without a packed form.
    """
    if not isinstance(given, dict):
        raise ModelLoadFailed(f"{where} without an encoder_config")
    kind = given.get("model_type", "deberta-v2")
    if kind not in ARCHITECTURES:
        raise ModelLoadFailed(
            f"{where} on an encoder of model_type {kind!r} is not supported; supported: "
            f"{', '.join(ARCHITECTURES)}"
        )
    return library.filled_config(where, {**given, "model_type": kind})


def limit_beside_labels(files: Files, recipe: Recipe, default: int = _MAX_LENGTH) -> int:
    """Return how many tokens of labels and text are read.

    An encoder that knows positions by their distances alone has no table to end at; what its
    tokenizer says then comes of the encoder, not of this model.
    """
    config = recipe.config
    table = config.get("max_position_embeddings") or default
    by_distance = recipe.architecture == "deberta-v2" and not config.get("position_biased_input")
    limit = default if by_distance else min(table, default)
    files.decide("max_length", limit, "the reference's own" if by_distance else "position table")
    return limit
