"""Texts to categories: nearest node vectors, with alternatives. Knows no files and no MCP."""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.item_vectors import embed_items
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.result import Result, RoundedScore
from sie_mcp.tools.similarity import top_matches


class Category(Result):
    """A category and how near it is: a mean of cosines, so at most 1."""

    category_id: str | None = None
    path: str
    score: RoundedScore


@dataclass(frozen=True, slots=True)
class Classified:
    """One text's categories, best first, under its place in the list of texts."""

    place: int
    categories: list[Category]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Classification:
    """All texts that could be classified, in order, and those that could not."""

    model: str
    texts: list[Classified]
    failed: dict[int, wire.ItemError]


async def classify(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    texts: Sequence[str],
    taxonomy: Taxonomy,
    *,
    top_k: int,
    progress: Progress,
) -> Classification:
    """Find the `top_k` nearest categories of each text."""
    nodes = await store.get(model, taxonomy, progress)
    vectors = await embed_items(client, nodes.model, texts, progress=progress)
    k = min(top_k, len(taxonomy.paths))
    indices, scores = await anyio.to_thread.run_sync(top_matches, vectors.values, nodes.values, k)
    truncated = set(vectors.truncated)
    classified = [
        Classified(
            place=place,
            categories=[
                _category(taxonomy, int(node), float(score))
                for node, score in zip(row, row_scores, strict=True)
            ],
            is_truncated=place in truncated,
        )
        for place, row, row_scores in zip(vectors.kept, indices, scores, strict=True)
    ]
    return Classification(nodes.model, classified, vectors.failed)


def _category(taxonomy: Taxonomy, node: int, score: float) -> Category:
    return Category(
        category_id=taxonomy.ids[node] if taxonomy.ids else None,
        path=SEPARATOR.join(taxonomy.paths[node]),
        score=score,
    )
