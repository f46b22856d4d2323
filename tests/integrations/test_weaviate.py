"""Weaviate's own types and a stub in place of its server, which has to be fetched to run here."""

import pytest

from sie_mcp.client import Client
from sie_mcp.errors import InvalidInput
from tests.integrations.collection import POTION

pytest.importorskip("weaviate")

from sie_mcp.integrations.weaviate import SieVectors


class StubCollection:
    """Keeps objects with their vectors and compares by cosine, as a collection would."""

    def __init__(self) -> None:
        self._objects = []

    def insert_many(self, objects) -> None:
        self._objects += objects

    def near_vector(self, near_vector: list[float], limit: int) -> list[dict]:
        ranked = sorted(self._objects, key=lambda one: -_cosine(one.vector, near_vector))
        return [one.properties for one in ranked[:limit]]


def _cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5


def test_a_search_finds_what_the_vectors_say(client, collection):
    vectors = SieVectors(client, POTION)
    store = StubCollection()
    store.insert_many(vectors.objects(collection.documents, [{"name": x} for x in collection.ids]))

    def search(text: str) -> list[str]:
        return [one["name"] for one in store.near_vector(limit=10, **vectors.near(text))]

    assert collection.is_matched(search)


def test_objects_are_documents_and_a_question_is_a_query(sides):
    vectors = SieVectors(Client(sides.url), "toy", name="meaning")
    (made,) = vectors.objects(["a"])
    assert (made.properties, made.vector) == ({"text": "a"}, {"meaning": [1.0, 1.0]})
    assert vectors.near("7") == {"near_vector": [7.0, 1.0], "target_vector": "meaning"}
    assert vectors.hybrid("7") == {"query": "7", "vector": [7.0, 1.0], "target_vector": "meaning"}
    assert sides.taken() == [False, True, True]


def test_lists_that_do_not_fit_are_refused(sides):
    with pytest.raises(InvalidInput, match="2 texts and 1 properties"):
        SieVectors(Client(sides.url), "toy").objects(["a", "b"], [{}])
