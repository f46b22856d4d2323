"""One model's reading of texts beside a taxonomy's nodes and labelled examples: vectors only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.catalogue.taxonomy import Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.item_vectors import embed_items
from sie_mcp.tools.node_vectors import NodeVectors, NodeVectorStore


@dataclass(frozen=True, slots=True)
class View:
    """What one model sees: unit-scaled vectors of texts and nodes, and how like examples are.

    `likeness` is `(num_kept, num_examples)`.
    """

    texts: np.ndarray
    kept: list[int]
    truncated: list[int]
    failed: dict[int, wire.ItemError]
    nodes: np.ndarray
    likeness: np.ndarray

    def rows(self, places: Sequence[int]) -> list[int]:
        """Return the rows of these texts."""
        row = {place: row for row, place in enumerate(self.kept)}
        return [row[place] for place in places]


@dataclass(frozen=True, slots=True)
class Reader:
    """One model, with the nodes and the examples that it has read already.

    `examples` are unit vectors `(num_examples, dims)`; zeros where one could not be read.
    """

    nodes: NodeVectors
    examples: np.ndarray

    @property
    def model(self) -> str:
        """The model's name."""
        return self.nodes.model

    async def view(self, client: EngineClient, texts: Sequence[str], progress: Progress) -> View:
        """Encode texts; it is no error that none of them could be."""
        found = await embed_items(client, self.model, texts, progress=progress, may_be_none=True)
        values = found.values if found.kept else np.zeros((0, self.nodes.values.shape[1]))
        return self._view(values, found.kept, found.truncated, found.failed)

    def view_of(self, values: np.ndarray) -> View:
        """Return what is seen of texts that were encoded before, `(num_texts, dims)`."""
        return self._view(np.asarray(values), list(range(len(values))), [], {})

    def _view(
        self,
        values: np.ndarray,
        kept: list[int],
        truncated: list[int],
        failed: dict[int, wire.ItemError],
    ) -> View:
        likeness = _unit(values) @ self.examples.T
        return View(values, kept, truncated, failed, self.nodes.values, likeness)


async def make_reader(
    client: EngineClient,
    store: NodeVectorStore,
    model: str,
    taxonomy: Taxonomy,
    examples: Sequence[str],
    progress: Progress,
) -> Reader:
    """Let a model read nodes and examples.

    Raises:
        SieError: what the worker answered.
    """
    nodes = await store.get(model, taxonomy, progress)
    vectors = np.zeros((len(examples), nodes.values.shape[1]), np.float32)
    if examples:
        found = await embed_items(client, nodes.model, examples, progress=progress)
        vectors[found.kept] = _unit(found.values)
    return Reader(nodes, vectors)


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = vectors / np.maximum(lengths, 1e-9)
    return unit
