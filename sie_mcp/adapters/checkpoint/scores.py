"""Classification heads: labels and their meaning, and how a logit becomes a score."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.model import Head
from sie_mcp.adapters.recipe import PoolingMode, Recipe, ScoreActivation
from sie_mcp.catalogue.entries import Entry
from sie_mcp.errors import ModelLoadFailed

_BY_CLASS: dict[str, ScoreActivation] = {
    "Sigmoid": "sigmoid",
    "Identity": "identity",
    "Softmax": "softmax",
}
_BY_PROBLEM: dict[str, ScoreActivation] = {
    "regression": "identity",
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
}


def read_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the head's outputs in order; a config without names has numbered ones.

    Raises:
        ModelLoadFailed: id2label whose keys are not numbers.
    """
    names = config.get("id2label")
    if isinstance(names, dict) and names:
        try:
            return tuple(str(names[key]) for key in sorted(names, key=int))
        except ValueError as error:
            raise ModelLoadFailed(f"config.json: id2label must be numbered: {error}") from error
    return tuple(f"LABEL_{index}" for index in range(int(config.get("num_labels", 2))))


def with_score(files: Files, recipe: Recipe, head: Head | None, entry: Entry | None) -> Recipe:
    """Add what a sequence's head reads, what its labels mean and what makes a score of a logit.

    Raises:
        ModelLoadFailed: labels or an activation that we cannot serve; names file, key and value.
    """
    pooling: PoolingMode = "cls"
    if head is not None and head.pooling is not None:
        pooling = head.pooling(recipe.config)
        files.decide("pooling", pooling, "config.json")
        recipe = replace(recipe, reads_tokens=head.reads_tokens(recipe.config))
    labels = recipe.labels
    if twice := sorted({one for one in labels if labels.count(one) > 1}):
        raise ModelLoadFailed(f"config.json: id2label names {', '.join(twice)} more than once")
    recipe = replace(
        _with_inference(files, recipe),
        pooling=(pooling,),
        score_activation=_read_activation(files, recipe),
    )
    return replace(recipe, score_label=_score_label(files, recipe, entry))


def _with_inference(files: Files, recipe: Recipe) -> Recipe:
    """Add which labels of a natural language inference model say what of a pair."""
    labels = recipe.labels
    entailment = _starting(labels, "entail")
    if entailment is None or len(labels) == 1:
        return recipe
    # By its name, or the only other label ("not_entailment").
    contradiction = 1 - entailment if len(labels) == 2 else _starting(labels, "contradict")
    files.decide("entailment_label", labels[entailment], "config.json")
    if contradiction is not None:
        files.decide("contradiction_label", labels[contradiction], "config.json")
    return replace(recipe, entailment_label=entailment, contradiction_label=contradiction)


def _read_activation(files: Files, recipe: Recipe) -> ScoreActivation:
    """Choose the activation; the first file that names one of torch's own decides.

    Source: the order of sentence-transformers' CrossEncoder, then problem_type as transformers'
    pipeline for classification reads it. That of a cross-encoder is not read, as the former does
    not.
    """
    config = recipe.config
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
            if found is None:
                known = ", ".join(_BY_CLASS)
                raise ModelLoadFailed(
                    f"{origin}: the activation {path!r} is not supported; supported: {known}"
                )
            files.decide("score_activation", found, origin)
            return found
    problem = config.get("problem_type")
    if problem is not None and recipe.tasks[0] == "classification":
        return _activation_of(files, str(problem), len(recipe.labels))
    default: ScoreActivation = "sigmoid" if len(recipe.labels) == 1 else "softmax"
    files.decide("score_activation", default, f"default for {len(recipe.labels)} label(s)")
    return default


def _activation_of(files: Files, problem: str, num_labels: int) -> ScoreActivation:
    if problem not in _BY_PROBLEM:
        known = ", ".join(_BY_PROBLEM)
        raise ModelLoadFailed(
            f"config.json: problem_type {problem!r} is not supported; supported: {known}"
        )
    found = _BY_PROBLEM[problem]
    if found == "softmax" and num_labels == 1:
        found = "sigmoid"  # One label's share of one label would always be 1.
    files.decide("score_activation", found, f"config.json problem_type {problem}")
    return found


def _starting(labels: Sequence[str], word: str) -> int | None:
    matches = (index for index, label in enumerate(labels) if label.lower().startswith(word))
    return next(matches, None)


def _score_label(files: Files, recipe: Recipe, entry: Entry | None) -> int | None:
    labels = recipe.labels
    if entry is not None and entry.score_label:
        if entry.score_label not in labels:
            raise ModelLoadFailed(
                f"{recipe.name}: the catalogue's score_label {entry.score_label!r} is none of "
                f"the labels in config.json: {', '.join(labels)}"
            )
        index: int | None = labels.index(entry.score_label)
        origin = "catalogue"
    elif len(labels) == 1:
        return 0
    elif recipe.entailment_label is not None:
        index, origin = recipe.entailment_label, "the entailment label"
    elif tuple(label.upper() for label in labels) == ("LABEL_0", "LABEL_1"):
        index, origin = 1, "default for two labels without names: the last"
    else:
        index, origin = None, "several labels: a score request has to name one"
    files.decide("score_label", "none" if index is None else labels[index], origin)
    return index
