"""What a taxonomy's nodes are to a model: the texts that it reads, and one vector made of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.client import EngineClient
from sie_mcp.errors import InferenceError, InvalidInput, SieError
from sie_mcp.tools.item_vectors import embed_items
from sie_mcp.tools.vectors import Vectors, embed_texts

NAME_WEIGHT = 1.5


class Views(Protocol):
    """What is encoded of a taxonomy, and how the vectors of its nodes are made of that.

    Attributes:
        name: Part of every file's name: a change of the views must not meet old vectors.
    """

    @property
    def name(self) -> str:
        """What stands in the file's name."""

    def texts(self, taxonomy: Taxonomy) -> Iterable[str]:
        """Return the texts to encode; one that comes twice is encoded once."""

    async def encode(self, client: EngineClient, model: str, texts: Sequence[str]) -> Vectors:
        """Encode some of them; it is no error that all of them fail."""

    def combine(
        self, taxonomy: Taxonomy, rows: Mapping[str, int], vectors: np.ndarray
    ) -> np.ndarray:
        """Return float32 `(num_nodes, dims)`; `rows` says where each text's vector is."""

    def failure(self, texts: Sequence[str], reason: str) -> SieError:
        """Return the error of texts that have no vector."""


class NodeViews:
    """Nodes as texts are put into them: a mean of views, so that a product is a mean of cosines.

    A node's own name counts one and a half times, its name under its parent's and the mean over the
    names of its path once each; synonyms and a description are a fourth where there are any.
    """

    name = "1.5leaf+pair+path.1"

    def texts(self, taxonomy: Taxonomy) -> Iterable[str]:
        """Return names, names under their parents', and what else is said of nodes."""
        texts = {name for path in taxonomy.paths for name in path}
        texts |= {pair(path) for path in taxonomy.paths}
        return texts | {text for notes in taxonomy.notes for text in notes.texts}

    async def encode(self, client: EngineClient, model: str, texts: Sequence[str]) -> Vectors:
        """Encode them as they are."""
        return await embed_texts(client, model, texts, may_be_none=True)

    def combine(
        self, taxonomy: Taxonomy, rows: Mapping[str, int], vectors: np.ndarray
    ) -> np.ndarray:
        """Return the weighted means of the views."""
        nodes = np.empty((len(taxonomy.paths), vectors.shape[1]), dtype=np.float32)
        for node, path in enumerate(taxonomy.paths):
            names = vectors[[rows[name] for name in path]]
            views = NAME_WEIGHT * names[-1] + vectors[rows[pair(path)]] + names.mean(axis=0)
            nodes[node] = views / (NAME_WEIGHT + 2)
        for node, notes in enumerate(taxonomy.notes):
            if notes.texts:
                said = vectors[[rows[text] for text in notes.texts]].mean(axis=0)
                nodes[node] = (nodes[node] * (NAME_WEIGHT + 2) + said) / (NAME_WEIGHT + 3)
        return nodes

    def failure(self, texts: Sequence[str], reason: str) -> SieError:
        """Say how many names it is."""
        return InferenceError(f"{len(texts)} category names have no vector: {reason}")


@dataclass(frozen=True, slots=True)
class TextViews:
    """Nodes as texts that are put into another taxonomy; errors name the `argument`."""

    argument: str
    name: str = "pair-as-text.1"

    def texts(self, taxonomy: Taxonomy) -> Iterable[str]:
        """Return names under their parents'."""
        return map(pair, taxonomy.paths)

    async def encode(self, client: EngineClient, model: str, texts: Sequence[str]) -> Vectors:
        """Encode them as every text that is classified."""
        return await embed_items(client, model, texts, may_be_none=True)

    def combine(
        self, taxonomy: Taxonomy, rows: Mapping[str, int], vectors: np.ndarray
    ) -> np.ndarray:
        """Return each node's own."""
        return vectors[[rows[pair(path)] for path in taxonomy.paths]]

    def failure(self, texts: Sequence[str], reason: str) -> SieError:
        """Say which name it is."""
        return InvalidInput(f"{self.argument}: {texts[0]!r} cannot be encoded: {reason}")


NODES = NodeViews()


def pair(path: tuple[str, ...]) -> str:
    """Return a node's name under its parent's, which is what tells most in few words."""
    return SEPARATOR.join(path[-2:])
