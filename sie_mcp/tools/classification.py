"""Texts to categories: scores of models and words fused, decided in the tree. Knows no files."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio.to_thread
import numpy as np

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import ModelLoadFailed
from sie_mcp.tools.decision import Branches, add_examples, confidence, fuse, probabilities
from sie_mcp.tools.item_vectors import embed_items, head
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.result import Result, RoundedScore
from sie_mcp.tools.similarity import BLOCK_SCORES, best
from sie_mcp.tools.words import WordIndex

logger = logging.getLogger(__name__)

# Reads beside the default model: a static model that costs next to nothing and errs elsewhere.
COMPANION = "potion-base-8M"


class Category(Result):
    """A category and how near it is: a mean of cosines, so at most 1."""

    category_id: str | None = None
    path: str
    score: RoundedScore


@dataclass(frozen=True, slots=True)
class Classified:
    """One text's categories, likeliest first, under its place in the list of texts.

    `confidence`: the estimated probability that the first is right.
    """

    place: int
    categories: list[Category]
    confidence: float
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Classification:
    """All texts that could be classified, in order, and those that could not."""

    model: str
    companion: str | None
    texts: list[Classified]
    failed: dict[int, wire.ItemError]


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled texts: the node of each is a place in the taxonomy."""

    texts: Sequence[str] = ()
    nodes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """How to choose: how many to list, and from which confidence on to go down to a node."""

    top_k: int = 3
    min_confidence: float = 0.0
    examples: Examples = field(default_factory=Examples)


@dataclass(frozen=True, slots=True)
class View:
    """What one model sees: unit-scaled vectors of texts, nodes and examples, by rows."""

    model: str
    texts: np.ndarray
    kept: list[int]
    truncated: list[int]
    failed: dict[int, wire.ItemError]
    nodes: np.ndarray
    likeness: np.ndarray


async def classify(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    texts: Sequence[str],
    taxonomy: Taxonomy,
    *,
    choice: Choice,
    progress: Progress,
) -> Classification:
    """Find the likeliest categories of each text.

    Raises:
        SieError: what the worker answered; a companion that cannot be loaded is left out.
    """
    views = await read_views(client, store, model, texts, taxonomy, choice.examples, progress)
    failed = {place: why for view in views for place, why in view.failed.items()}
    places = [place for place in range(len(texts)) if place not in failed]
    found = await anyio.to_thread.run_sync(_decide, views, texts, places, taxonomy, choice)
    return Classification(views[0].model, views[1].model if len(views) > 1 else None, found, failed)


async def read_views(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    texts: Sequence[str],
    taxonomy: Taxonomy,
    examples: Examples,
    progress: Progress,
) -> list[View]:
    """Let the model see the texts, and with the default one its companion too."""
    views = [await _view(client, store, model, texts, taxonomy, examples, progress)]
    if model == "auto" and await _has_companion(client, views[0].model):
        try:
            views.append(await _view(client, store, COMPANION, texts, taxonomy, examples, progress))
        except ModelLoadFailed as error:
            logger.warning("classifying without companion model=%s: %s", COMPANION, error)
    return views


async def _has_companion(client: EngineClient, model: str) -> bool:
    listed = await client.models()
    return model != COMPANION and any(card.name == COMPANION for card in listed.models)


async def _view(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    texts: Sequence[str],
    taxonomy: Taxonomy,
    examples: Examples,
    progress: Progress,
) -> View:
    nodes = await store.get(model, taxonomy, progress)
    found = await embed_items(client, nodes.model, texts, progress=progress)
    likeness = np.zeros((len(found.kept), len(examples.texts)), np.float32)
    if examples.texts:
        labelled = await embed_items(client, nodes.model, examples.texts, progress=progress)
        likeness[:, labelled.kept] = _unit(found.values) @ _unit(labelled.values).T
    return View(
        nodes.model, found.values, found.kept, found.truncated, found.failed, nodes.values, likeness
    )


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = vectors / np.maximum(lengths, 1e-9)
    return unit


def _decide(
    views: Sequence[View],
    texts: Sequence[str],
    places: Sequence[int],
    taxonomy: Taxonomy,
    choice: Choice,
) -> list[Classified]:
    """Score, decide and describe texts in blocks, so that memory stays bounded."""
    branches = Branches(taxonomy.paths)
    index = WordIndex([path[-1] for path in taxonomy.paths])
    rows = [{place: row for row, place in enumerate(view.kept)} for view in views]
    truncated = set(views[0].truncated)
    ids = dict(zip(taxonomy.paths, taxonomy.ids, strict=True)) if taxonomy.ids else {}
    done = []
    step = max(1, BLOCK_SCORES // len(taxonomy.paths) // 4)
    for start in range(0, len(places), step):
        block = places[start : start + step]
        chosen = [[row[place] for place in block] for row in rows]
        cosines = [v.texts[one] @ v.nodes.T for v, one in zip(views, chosen, strict=True)]
        scores = fuse(cosines, index.similarities([head(texts[p]) or texts[p] for p in block]))
        if choice.examples.texts:
            alike = [v.likeness[one] for v, one in zip(views, chosen, strict=True)]
            scores = add_examples(scores, np.mean(alike, axis=0), choice.examples.nodes)
        shares = probabilities(branches.decide(scores))
        for place, near, share in zip(block, cosines[0], shares, strict=True):
            listed = best(share, min(choice.top_k, len(share)))
            categories = [_category(taxonomy, int(node), float(near[node])) for node in listed]
            path, sure = decide_depth(
                branches, share, taxonomy.paths[listed[0]], choice.min_confidence
            )
            if len(path) < len(taxonomy.paths[listed[0]]):
                above = Category(
                    category_id=ids.get(path),
                    path=SEPARATOR.join(path),
                    score=categories[0].score,
                )
                categories = [above, *categories][: choice.top_k]
            done.append(Classified(place, categories, sure, place in truncated))
    return done


def decide_depth(
    branches: Branches, share: np.ndarray, path: tuple[str, ...], min_confidence: float
) -> tuple[tuple[str, ...], float]:
    """Go up from the likeliest node until the branch is likely enough; its own when none is."""
    own = confidence(float(share.max()))
    if own >= min_confidence:
        return path, own
    for depth in range(len(path), 0, -1):
        sure = confidence(branches.share(share, path[:depth]))
        if sure >= min_confidence:
            return path[:depth], sure
    return path, own


def _category(taxonomy: Taxonomy, node: int, score: float) -> Category:
    return Category(
        category_id=taxonomy.ids[node] if taxonomy.ids else None,
        path=SEPARATOR.join(taxonomy.paths[node]),
        score=score,
    )
