"""LanceDB: an embedding function whose name a table keeps with its settings."""

from typing import Any

import numpy as np
from lancedb.embeddings import TextEmbeddingFunction, register
from pydantic import PrivateAttr

from sie_mcp.client import Client
from sie_mcp.client.given import Side


@register("sie-mcp")
class SieEmbeddings(TextEmbeddingFunction):
    """Dense vectors of a model: the source column as documents, a search as a query.

    Make it by `get_registry().get("sie-mcp").create(model=…)`. LanceDB keeps no key in a table:
    give `api_key="$var:NAME"` and set NAME in its registry.
    """

    model: str
    url: str = "http://127.0.0.1:8080"
    api_key: str | None = None
    dimensions: int | None = None
    # The client tries again by itself, and knows what is worth it.
    max_retries: int = 0
    _client: Client | None = PrivateAttr(default=None)
    _size: int | None = PrivateAttr(default=None)

    @staticmethod
    def sensitive_keys() -> list[str]:
        """Return what must not stand in a table."""
        return ["api_key"]

    def compute_query_embeddings(self, query: str, *_: Any, **__: Any) -> list[np.ndarray]:
        """Embed a query: a list of one float32 `(dims,)`."""
        return self._embed([query], "query")

    def generate_embeddings(self, texts: Any, *_: Any, **__: Any) -> list[np.ndarray]:
        """Embed a column's texts: a list of float32 `(dims,)`."""
        return self._embed(list(texts), "document")

    def ndims(self) -> int:
        """Return the number of dimensions, which one word is encoded for."""
        if self._size is None:
            self._size = len(self._embed(["a"], "document")[0])
        return self._size

    def _embed(self, texts: list[str], side: Side) -> list[np.ndarray]:
        if self._client is None:
            self._client = Client(self.url, api_key=self.api_key)
        return list(self._client.embed(texts, self.model, side=side, dimensions=self.dimensions))
