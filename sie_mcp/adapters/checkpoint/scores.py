"""Classification heads: labels, and how a logit becomes a score."""

from collections.abc import Mapping
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.recipe import ScoreActivation

_BY_CLASS: dict[str, ScoreActivation] = {"Sigmoid": "sigmoid", "Identity": "identity"}


def read_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the head's outputs in order; a config without names has numbered ones."""
    names = config.get("id2label")
    if isinstance(names, dict) and names:
        return tuple(str(names[key]) for key in sorted(names, key=int))
    return tuple(f"LABEL_{index}" for index in range(int(config.get("num_labels", 2))))


def read_score_activation(
    files: Files, config: Mapping[str, Any], num_labels: int
) -> ScoreActivation:
    """Choose a cross-encoder's activation; the first file that names a known one decides.

    Source: the order of sentence-transformers' CrossEncoder. Only torch's own classes are trusted.
    """
    own = config.get("sentence_transformers")
    candidates = (
        (
            files.read("config_sentence_transformers.json").get("activation_fn"),
            "config_sentence_transformers.json",
        ),
        (own.get("activation_fn") if isinstance(own, dict) else None, "config.json"),
        (config.get("sbert_ce_default_activation_function"), "config.json"),
    )
    for path, origin in candidates:
        if isinstance(path, str) and path.startswith("torch."):
            found = _BY_CLASS.get(path.rsplit(".", 1)[-1])
            if found is not None:
                files.decide("score_activation", found, origin)
                return found
    default: ScoreActivation = "sigmoid" if num_labels == 1 else "identity"
    files.decide("score_activation", default, f"default for {num_labels} label(s)")
    return default
