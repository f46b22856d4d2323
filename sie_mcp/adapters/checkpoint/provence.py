"""Provence: a pruning head among a cross-encoder's own tensors, one linear layer of two outputs.

Two dialects: OpenProvence wraps the cross-encoder's config in one of its own; the class that the
authors of Provence published keeps DeBERTa's. Sources: Chirkova et al. 2025, naver/bergen
(scripts/provence) and hotchpotch/open_provence. Sentences are kept by the mean of their tokens.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.checkpoint.pruning import check_width, with_profiles
from sie_mcp.adapters.models.settings import require
from sie_mcp.adapters.recipe import Projection, Recipe
from sie_mcp.catalogue.entries import Entry, Profile
from sie_mcp.errors import ModelLoadFailed

OPEN_PROVENCE = "open_provence"
PROVENCE_CLASS = "DebertaV2ForCompressionAndRanking"
# Of both, where no file says another.
_THRESHOLD = 0.1
# The authors spell it so.
_THRESHOLD_KEYS = ("default_threadshold", "default_threshold")
_HEAD = {"num_labels": (2,), "sentence_pooling": ("mean",), "use_weighted_pooling": (False,)}
_WHOLE = {"mode": ("reranking_pruning",), "num_labels": (1,), "num_pruning_labels": (2,)}


def is_provence(config: Mapping[str, Any]) -> bool:
    """Whether an unwrapped config is of either dialect."""
    return OPEN_PROVENCE in config or PROVENCE_CLASS in (config.get("architectures") or ())


def unwrap(config: dict[str, Any]) -> dict[str, Any]:
    """Return OpenProvence's config as its cross-encoder's, its own under "open_provence".

    Raises:
        ModelLoadFailed: it lacks the cross-encoder's, or has settings that are not served.
    """
    if config.get("model_type") != OPEN_PROVENCE:
        return config
    require(config, _WHOLE)
    require(config.get("pruning_config") or {}, _HEAD)
    base = config.get("base_model_config")
    if not isinstance(base, dict) or not base.get("model_type"):
        raise ModelLoadFailed("config.json: open_provence without a base_model_config")
    return {**base, "id2label": {"0": "LABEL_0"}, OPEN_PROVENCE: config}


def with_provence(files: Files, recipe: Recipe, entry: Entry | None) -> Recipe:
    """Add the head to a cross-encoder's recipe.

    Raises:
        ModelLoadFailed: a head that does not fit.
    """
    own = recipe.config.get(OPEN_PROVENCE)
    recipe = _as_published(files, recipe) if own is None else _as_open(files, recipe, own)
    check_width(recipe.projections, int(recipe.config["hidden_size"]), 2)
    files.decide("pruning", "a linear head, sentences by their mean", "config.json")
    given = next((own[key] for key in _THRESHOLD_KEYS if own and own.get(key) is not None), None)
    default = Profile(threshold=_THRESHOLD if given is None else float(given))
    origin = "default of Provence" if given is None else "config.json"
    return with_profiles(files, replace(recipe, unit="sentence"), entry, default, origin)


def _as_open(files: Files, recipe: Recipe, own: Mapping[str, Any]) -> Recipe:
    """Read OpenProvence: its head, its limit, and which states the head was trained on."""
    limit = own.get("max_length")
    if limit is not None and (recipe.max_length is None or limit < recipe.max_length):
        recipe = replace(recipe, max_length=int(limit))
        files.decide("max_length", limit, "config.json max_length")
    is_modernbert = recipe.architecture == "modernbert"
    if is_modernbert:
        # transformers 4 calls these the last hidden states, and such heads were trained with it;
        # since 5 they are those after the norm.
        files.decide("pruning_states", "before the last norm", "transformers 4")
    width = (own.get("pruning_config") or {}).get("hidden_size", recipe.config["hidden_size"])
    head = _head(recipe, "pruning_head.classifier.", int(width))
    return replace(
        recipe,
        projections=(head,),
        tensor_prefix="ranking_model.",
        reads_before_norm=is_modernbert,
    )


def _as_published(files: Files, recipe: Recipe) -> Recipe:
    """Read the authors' class: the first ranking logit is the score, as it is."""
    files.decide("score_activation", "identity", PROVENCE_CLASS)
    files.decide("score_label", recipe.labels[0], PROVENCE_CLASS)
    head = _head(recipe, "token_classifier.", int(recipe.config["hidden_size"]))
    return replace(recipe, projections=(head,), score_activation="identity", score_label=0)


def _head(recipe: Recipe, stored_as: str, in_features: int) -> Projection:
    return Projection(
        folder=recipe.folder,
        in_features=in_features,
        out_features=2,
        has_bias=True,
        activation="identity",
        input_name="keep_logits",
        stored_as=stored_as,
    )
