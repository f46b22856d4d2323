"""Who says how well each label fits: a model that takes any label, its own labels, or cosines.

Every judge gives probabilities; where labels exclude each other they add up to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import anyio.to_thread
import numpy as np

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.decision import COSINE_TEMPERATURE, softmax
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.labelling.labels import Label
from sie_mcp.tools.vectors import Vectors, embed_texts
from sie_mcp.wire_structure import MAX_FIELDS, LabelsSpec, Structure

# What GLiNER2 reads before the labels of a question.
TASK = "category"
Method = Literal["similarity", "hypothesis", "zero_shot", "own_labels"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was said of one text: labels and probabilities, best first."""

    place: int
    scores: list[tuple[str, float]]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """All texts that could be judged, in order, and those that could not.

    `label_vectors` are those of the labels, where the judge had them.
    """

    model: str
    method: Method
    texts: list[Judgement]
    failed: dict[int, wire.ItemError]
    label_vectors: Vectors | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every text; `template` has {} where a label goes, "" is the judge's own."""

    labels: Sequence[Label]
    multi_label: bool = False
    template: str = ""


async def judge(
    client: EngineClient,
    card: wire.ModelCard | None,
    model: str,
    texts: Sequence[str],
    question: Question,
    progress: Progress,
) -> Judged:
    """Let a model judge texts in the way that it can.

    Raises:
        InvalidInput: it cannot, or not so; says which models would.
    """
    method = _method(card, question)
    if method == "similarity":
        return await _by_similarity(client, model, texts, question, progress)
    params = _schema(card, question) or _params(method, question)
    return await _by_model(client, model, method, params, texts, question, progress)


def _method(card: wire.ModelCard | None, question: Question) -> Method:
    """Say how a model judges; a worker that does not know it yet is asked for cosines."""
    if card is None or "encode" in card.primitives:
        method: Method = "similarity"
    elif "classifications" not in card.outputs:
        raise InvalidInput(
            f"{card.name} labels no whole texts (it gives {', '.join(card.outputs) or 'nothing'}); "
            "leave model out, or name a GLiClass or NLI model, or one that embeds"
        )
    elif card.labels is None:
        method = "zero_shot"
    elif any(label.lower().startswith("entail") for label in card.labels):
        method = "hypothesis"
    else:
        method = "own_labels"
    name = "the default model" if card is None else card.name
    if method != "own_labels" and not question.labels:
        raise InvalidInput(f"{name} needs labels of yours; send at least two")
    if method == "similarity" and question.multi_label:
        raise InvalidInput(
            f"{name} compares labels with each other; multi_label needs a GLiClass or NLI model, "
            "which judges each alone (list_models)"
        )
    if method == "similarity" and len(question.labels) < 2:
        raise InvalidInput(f"{name} compares labels with each other; send at least two")
    if question.template and method in ("zero_shot", "own_labels"):
        raise InvalidInput(f"{name} takes no template; leave it out")
    return method


async def _by_similarity(
    client: EngineClient,
    model: str,
    texts: Sequence[str],
    question: Question,
    progress: Progress,
) -> Judged:
    template = question.template or "{}"
    sentences = [template.replace("{}", label.text) for label in question.labels]
    labels = await embed_texts(client, model, sentences)
    if labels.failed:
        raise InvalidInput(f"label {question.labels[min(labels.failed)].name!r} cannot be embedded")
    vectors = await embed_texts(client, labels.model, texts, progress=progress)
    truncated = set(vectors.truncated)
    names = [label.name for label in question.labels]
    cosines = (vectors.values @ labels.values.T).astype(np.float64)
    shares = await anyio.to_thread.run_sync(softmax, cosines, COSINE_TEMPERATURE)
    judged = [
        Judgement(place, _best_first(names, row), place in truncated)
        for place, row in zip(vectors.kept, shares, strict=True)
    ]
    return Judged(vectors.model, "similarity", judged, vectors.failed, labels)


def _best_first(names: Sequence[str], shares: np.ndarray) -> list[tuple[str, float]]:
    order = np.argsort(-shares, kind="stable")
    return [(names[place], float(shares[place])) for place in order]


def _schema(card: wire.ModelCard | None, question: Question) -> wire.ExtractParams | None:
    """Return what GLiNER2 is asked, which finds entities of plain labels; None for other models.

    Raises:
        InvalidInput: more labels than a question has.
    """
    if card is None or "records" not in card.outputs:
        return None
    labels = {label.name: label.description for label in question.labels}
    if len(labels) > MAX_FIELDS:
        raise InvalidInput(
            f"{card.name} takes {MAX_FIELDS} labels in a question, not {len(labels):,}; leave "
            "model out, or name one that embeds"
        )
    asked = LabelsSpec(name=TASK, labels=labels, multi_label=question.multi_label)
    structure = Structure(classifications=[asked])
    return wire.ExtractParams(options=wire.ExtractOptions(structure=structure))


def _params(method: Method, question: Question) -> wire.ExtractParams:
    options = wire.ExtractOptions()
    if method != "own_labels":
        options.multi_label = question.multi_label
    if question.template:
        options.hypothesis_template = question.template
    return wire.ExtractParams(
        labels=[label.text for label in question.labels] or None, options=options
    )


async def _by_model(
    client: EngineClient,
    model: str,
    method: Method,
    params: wire.ExtractParams,
    texts: Sequence[str],
    question: Question,
    progress: Progress,
) -> Judged:
    name_of = {label.text: label.name for label in question.labels}
    items = [wire.Item(text=text) for text in texts]
    answer = await client.extract(model, items, params, progress=progress)
    failed = {place: item.error for place, item in enumerate(answer.items) if item.error}
    raise_if_all_failed(failed, len(items))
    judged = [
        Judgement(
            place,
            [(name_of.get(one.label, one.label), one.score) for one in item.classifications],
            item.truncated,
        )
        for place, item in enumerate(answer.items)
        if place not in failed
    ]
    return Judged(answer.model, method, judged, failed)
