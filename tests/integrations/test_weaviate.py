"""Weaviate's own client, over gRPC, before a stub of its server, which no package index has."""

import pytest

from sie_mcp.client import Client
from sie_mcp.errors import InvalidInput
from tests.integrations.collection import POTION

pytest.importorskip("weaviate")

from sie_mcp.integrations.weaviate import SieVectors
from tests.integrations.weaviate_stub import connected


@pytest.mark.parametrize("name", [None, "meaning"])
def test_a_search_finds_what_the_vectors_say(client, collection, name):
    vectors = SieVectors(client, POTION, name=name)
    with connected() as (weaviate, held):
        store = weaviate.collections.use("Paragraph")
        texts = [{"name": one} for one in collection.ids]
        done = store.data.insert_many(vectors.objects(collection.documents, texts))
        assert not done.has_errors
        assert len(held.held) == len(collection.ids)

        def search(text: str) -> list[str]:
            found = store.query.near_vector(limit=10, **vectors.near(text))
            return [one.properties["name"] for one in found.objects]

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
