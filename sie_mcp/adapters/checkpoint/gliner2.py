"""GLiNER2: config.json with the head's settings, the encoder's beside it in encoder_config/.

Source: configuration.py of the gliner2 package. Served is the span architecture, which all
published checkpoints of version 1 have.
"""

from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.wrapped import encoder_config, limit_beside_labels
from sie_mcp.adapters.gliner2.counting import COUNTING
from sie_mcp.adapters.gliner2.settings import SETTINGS, Gliner2Settings
from sie_mcp.adapters.models.settings import require
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.errors import ModelLoadFailed

MODEL_TYPE = "extractor"
_ENCODER = "encoder_config/config.json"
_WORDS = "word_embeddings.weight", "tok_embeddings.weight"
_SERVED: dict[str, tuple[Any, ...]] = {
    "architecture": (None, "span"),
    "architecture_version": (1,),
    "token_pooling": ("first",),
    "counting_layer": (None, *COUNTING),
    "boundary_head": (None,),
}


def unwrap(files: Files, config: dict[str, Any]) -> dict[str, Any]:
    """Return the encoder's config, the checkpoint's own under "gliner2".

    Raises:
        ModelLoadFailed: settings that are not served, or no encoder's config.
    """
    if config.get("model_type") != MODEL_TYPE:
        return config
    require(config, _SERVED)
    require(config.get("span_head") or {}, {"span_mode": ("markerV0",)})
    if not files.has(_ENCODER):
        raise ModelLoadFailed(f"GLiNER2 checkpoint without {_ENCODER}")
    encoder = encoder_config(files.read(_ENCODER), _ENCODER)
    source = open_tensors(files.folder)
    tables = [one for one in source.names() if one.startswith("encoder.") and one.endswith(_WORDS)]
    if len(tables) != 1:
        raise ModelLoadFailed(f"{source.label} has no word table under encoder.")
    # The reference makes it as large as the tokenizer, whatever the encoder's file says.
    encoder["vocab_size"] = source.shape(tables[0])[0]
    return encoder | {"architectures": [MODEL_TYPE], SETTINGS: config}


def with_gliner2(files: Files, recipe: Recipe) -> Recipe:
    """Add where the encoder's tensors are, and how much is read."""
    settings = Gliner2Settings.of(recipe.config)
    files.decide("max_width", settings.max_width, "config.json")
    files.decide("counting", settings.counting, "config.json counting_layer")
    max_length = limit_beside_labels(files, recipe, default=2_048)
    return replace(recipe, tensor_prefix="encoder.", max_length=max_length)
