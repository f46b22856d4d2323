"""GLiClass: a config that wraps its encoder's, and a head whose every switch is read or refused.

Source: config.json of Knowledgator's gliclass. Served is the uni-encoder, where labels and text are
read together.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.wrapped import encoder_config, limit_beside_labels
from sie_mcp.adapters.layers.label_scorers import SCORERS
from sie_mcp.adapters.models.gliclass import POOLINGS, SETTINGS, GliclassSettings
from sie_mcp.adapters.models.settings import require
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

MODEL_TYPE = "GLiClass"
_SERVED: dict[str, tuple[Any, ...]] = {
    "architecture_type": ("uni-encoder",),
    "scorer_type": tuple(SCORERS),
    "pooling_strategy": POOLINGS,
    "class_token_pooling": ("first", "average"),
    "problem_type": (None, "single_label_classification", "multi_label_classification"),
    "use_lstm": (False,),
    "squeeze_layers": (False,),
    "encoder_layer_id": (-1,),
    "use_segment_embeddings": (False,),
    "use_calibrator": (False,),
    "multimodal": (False,),
}


def unwrap(config: dict[str, Any]) -> dict[str, Any]:
    """Return the encoder's config, the checkpoint's own under "gliclass".

    Raises:
        ModelLoadFailed: settings that are not served, or no encoder's config.
    """
    if config.get("model_type") != MODEL_TYPE:
        return config
    require(config, _SERVED)
    encoder = encoder_config(config.get("encoder_config"), "config.json: GLiClass")
    own = {key: value for key, value in config.items() if key != "encoder_config"}
    if config.get("vocab_size"):
        encoder["vocab_size"] = config["vocab_size"]
    encoder |= {"architectures": [MODEL_TYPE], SETTINGS: own}
    _check(encoder)
    return encoder


def _check(encoder: Mapping[str, Any]) -> None:
    """Refuse switches whose numbers depend on the padding beside a text, and unequal widths."""
    own, settings = encoder[SETTINGS], GliclassSettings.of(encoder)
    if settings.reads_from_text and settings.pooling != "first":
        raise ModelLoadFailed(
            f"config.json: extract_text_features with pooling_strategy {settings.pooling!r} is not "
            "supported; supported: 'first'"
        )
    if settings.averages_labels and settings.reads_from_text:
        raise ModelLoadFailed(
            "config.json: extract_text_features with class_token_pooling 'average' is not supported"
        )
    if settings.scorer == "hopfield" and own.get("max_labels_alloc", "dynamic") != "dynamic":
        raise ModelLoadFailed(
            f"config.json: scorer_type 'hopfield' with max_labels_alloc "
            f"{own['max_labels_alloc']!r} is not supported; supported: 'dynamic'"
        )
    width = encoder["hidden_size"]
    if settings.scorer != "simple" and settings.hidden_size != width:
        raise ModelLoadFailed(
            f"config.json: scorer_type {settings.scorer!r} needs a hidden_size of {width}, the "
            f"encoder's, not {settings.hidden_size}"
        )


def with_gliclass(files: Files, recipe: Recipe) -> Recipe:
    """Add where the encoder's tensors are, and how much is read."""
    settings = GliclassSettings.of(recipe.config)
    files.decide("scorer", settings.scorer, "config.json scorer_type")
    files.decide("pooling", settings.pooling, "config.json pooling_strategy")
    files.decide("labels", "each alone" if settings.multi_label else "one of them", "problem_type")
    max_length = limit_beside_labels(files, recipe)
    return replace(recipe, tensor_prefix="model.encoder_model.", max_length=max_length)
