"""Chroma: an embedding function that a collection keeps with its name and settings."""

import os
from typing import Any

import numpy as np
from chromadb.api.types import Documents, EmbeddingFunction, Embeddings, Space
from chromadb.utils.embedding_functions import register_embedding_function

from sie_mcp.client import Client
from sie_mcp.client.given import Side

NAME = "sie_mcp"


@register_embedding_function
class SieEmbeddingFunction(EmbeddingFunction[Documents]):
    """Dense vectors of a model: documents as they are added, queries as they are asked.

    A collection keeps the model and the address, never a key: `api_key_env_var` names the variable
    of the environment that it is in.
    """

    def __init__(
        self,
        model: str,
        url: str = "http://127.0.0.1:8080",
        *,
        dimensions: int | None = None,
        api_key_env_var: str | None = None,
    ) -> None:
        self._config = {
            "model": model,
            "url": url,
            "dimensions": dimensions,
            "api_key_env_var": api_key_env_var,
        }
        self._model = model
        self._dimensions = dimensions
        key = os.environ[api_key_env_var] if api_key_env_var else None
        self._client = Client(url, api_key=key)

    def __call__(self, input: Documents) -> Embeddings:
        """Embed documents: a list of float32 `(dims,)`."""
        return self._vectors(input, "document")

    def embed_query(self, input: Documents) -> Embeddings:
        """Embed queries: a list of float32 `(dims,)`."""
        return self._vectors(input, "query")

    @staticmethod
    def name() -> str:
        """Return what a collection keeps of the class."""
        return NAME

    def default_space(self) -> Space:
        """Compare by cosine, as the models were trained to be."""
        return "cosine"

    def get_config(self) -> dict[str, Any]:
        """Return what a collection keeps of the settings."""
        return dict(self._config)

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> "SieEmbeddingFunction":
        """Make the function again for a collection that is opened."""
        return SieEmbeddingFunction(**config)

    def validate_config_update(
        self, old_config: dict[str, Any], new_config: dict[str, Any]
    ) -> None:
        """Refuse another model for vectors that are there.

        Raises:
            ValueError: the model or the number of dimensions would change.
        """
        for name in ("model", "dimensions"):
            if old_config.get(name) != new_config.get(name):
                raise ValueError(f"{name} of a collection with vectors cannot change")

    def _vectors(self, texts: Documents, side: Side) -> list[np.ndarray]:
        return list(self._client.embed(texts, self._model, side=side, dimensions=self._dimensions))
