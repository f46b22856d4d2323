"""Qdrant: points with named vectors, dense, sparse and one a token, and queries for each."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from qdrant_client import models

from sie_mcp.client import Client
from sie_mcp.client.given import Side
from sie_mcp.errors import InvalidInput

Kind = Literal["dense", "sparse", "multivector"]
# A text has the same id wherever and whenever it is added.
_NAMESPACE = uuid.UUID("6f0a3c1e-54f5-4d6c-9d8f-0f6a0f9be1d2")


@dataclass(frozen=True, slots=True)
class Vector:
    """Which vector stands under a name: of what model, and of what kind."""

    model: str
    kind: Kind = "dense"


class SieVectors:
    """Makes what a collection with named vectors takes.

    Args:
        client: To the engine.
        vectors: By the name in the collection; several models may stand side by side.
    """

    def __init__(self, client: Client, vectors: Mapping[str, Vector]) -> None:
        self._client = client
        self._vectors = dict(vectors)

    def collection(self) -> dict[str, Any]:
        """Return `vectors_config` and `sparse_vectors_config` for `create_collection`.

        Encodes one word with each model, which says how many dimensions there are.
        """
        dense: dict[str, models.VectorParams] = {}
        sparse: dict[str, models.SparseVectorParams] = {}
        for name, vector in self._vectors.items():
            if vector.kind == "sparse":
                sparse[name] = models.SparseVectorParams()
            else:
                dense[name] = self._params(vector)
        return {"vectors_config": dense, "sparse_vectors_config": sparse}

    def points(
        self,
        texts: Sequence[str],
        payloads: Sequence[dict[str, Any]] | None = None,
        ids: Sequence[int | str] | None = None,
    ) -> list[models.PointStruct]:
        """Return one point a text, its vectors read as documents.

        Args:
            texts: What is encoded.
            payloads: One each; default: the text, as `text`.
            ids: One each; default: made of the text, so that the same text is the same point.

        Raises:
            InvalidInput: lists of different lengths.
        """
        payloads = [{"text": text} for text in texts] if payloads is None else payloads
        made = [str(uuid.uuid5(_NAMESPACE, text)) for text in texts] if ids is None else list(ids)
        if not len(texts) == len(payloads) == len(made):
            raise InvalidInput(
                f"{len(texts)} texts, {len(payloads)} payloads and {len(made)} ids; give as many"
            )
        columns = {
            name: self._encode(texts, one, "document") for name, one in self._vectors.items()
        }
        return [
            models.PointStruct(
                id=made[place],
                payload=payloads[place],
                vector={name: column[place] for name, column in columns.items()},
            )
            for place in range(len(texts))
        ]

    def query(self, text: str, name: str) -> dict[str, Any]:
        """Return `query` and `using` for `query_points`, or for one `models.Prefetch`.

        Raises:
            InvalidInput: no vector of this name.
        """
        if name not in self._vectors:
            raise InvalidInput(f"no vector {name!r}; there are: {', '.join(self._vectors)}")
        (found,) = self._encode([text], self._vectors[name], "query")
        return {"query": found, "using": name}

    def _params(self, vector: Vector) -> models.VectorParams:
        (found,) = self._encode(["a"], vector, "document")
        if vector.kind == "dense":
            return models.VectorParams(size=len(found), distance=models.Distance.COSINE)
        compared = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        size = len(found[0])
        return models.VectorParams(
            size=size, distance=models.Distance.COSINE, multivector_config=compared
        )

    def _encode(self, texts: Sequence[str], vector: Vector, side: Side) -> list[Any]:
        found = self._client.encode(texts, vector.model, side=side, outputs=[vector.kind])
        if vector.kind == "sparse":
            return [
                models.SparseVector(indices=one.indices.tolist(), values=one.values.tolist())
                for one in found.sparse
            ]
        return [
            one.tolist() for one in (found.dense if vector.kind == "dense" else found.multivector)
        ]
