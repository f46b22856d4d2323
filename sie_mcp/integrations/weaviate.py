"""Weaviate, with vectors brought along: objects to insert, and a query's vector to search near."""

from collections.abc import Sequence
from typing import Any

from weaviate.classes.data import DataObject

from sie_mcp.client import Client
from sie_mcp.errors import InvalidInput


class SieVectors:
    """Makes what a collection with `Configure.Vectors.self_provided()` takes.

    Args:
        client: To the engine.
        model: Of the dense vectors.
        name: Of the vector in the collection, where it has named ones.
    """

    def __init__(self, client: Client, model: str, *, name: str | None = None) -> None:
        self._client = client
        self._model = model
        self._name = name

    def objects(
        self, texts: Sequence[str], properties: Sequence[dict[str, Any]] | None = None
    ) -> list[DataObject[Any, Any]]:
        """Return one object a text for `collection.data.insert_many`, read as a document.

        Args:
            texts: What is encoded.
            properties: One each; default: the text, as `text`.

        Raises:
            InvalidInput: lists of different lengths.
        """
        properties = [{"text": text} for text in texts] if properties is None else properties
        if len(properties) != len(texts):
            raise InvalidInput(f"{len(texts)} texts and {len(properties)} properties; give as many")
        vectors = self._client.embed(texts, self._model, side="document").tolist()
        return [
            DataObject(
                properties=one, vector=vector if self._name is None else {self._name: vector}
            )
            for one, vector in zip(properties, vectors, strict=True)
        ]

    def near(self, query: str) -> dict[str, Any]:
        """Return the arguments of `collection.query.near_vector` that say what is near."""
        return {"near_vector": self._vector(query)} | self._target()

    def hybrid(self, query: str) -> dict[str, Any]:
        """Return the arguments of `collection.query.hybrid`: the words, and their vector."""
        return {"query": query, "vector": self._vector(query)} | self._target()

    def _vector(self, query: str) -> list[float]:
        vector: list[float] = self._client.embed(query, self._model, side="query")[0].tolist()
        return vector

    def _target(self) -> dict[str, Any]:
        return {} if self._name is None else {"target_vector": self._name}
