"""Qdrant, in this process: named vectors of two models, dense and sparse."""

import numpy as np
import pytest

from sie_mcp.client import Client
from sie_mcp.errors import InvalidInput
from tests.integrations.collection import MINILM, POTION, SPLADE

pytest.importorskip("qdrant_client")

from qdrant_client import QdrantClient, models

from sie_mcp.integrations.qdrant import SieVectors, Vector

NAME = "paragraphs"


@pytest.fixture(scope="module")
def vectors(client):
    return SieVectors(client, {"meaning": Vector(POTION), "words": Vector(SPLADE, "sparse")})


@pytest.fixture(scope="module")
def store(vectors, collection):
    made = QdrantClient(":memory:")
    made.create_collection(NAME, **vectors.collection())
    payloads = [{"name": one} for one in collection.ids]
    made.upsert(NAME, vectors.points(collection.documents, payloads, range(len(payloads))))
    yield made
    made.close()


def search(store, **query) -> list[str]:
    found = store.query_points(NAME, limit=10, **query).points
    return [point.payload["name"] for point in found]


def test_a_search_finds_what_the_vectors_say(store, vectors, collection):
    assert collection.is_matched(lambda text: search(store, **vectors.query(text, "meaning")))


def test_stored_vectors_are_the_engines(store, collection):
    (point,) = store.retrieve(NAME, [3], with_vectors=True)
    expected = collection.document_vectors[3]
    # Qdrant keeps vectors that are compared by cosine at length one.
    expected = expected / np.linalg.norm(expected)
    np.testing.assert_allclose(point.vector["meaning"], expected, atol=1e-5)


def test_sparse_and_dense_are_fused(store, vectors, collection):
    def fused(text: str) -> list[str]:
        both = [
            models.Prefetch(limit=20, **vectors.query(text, one)) for one in ("meaning", "words")
        ]
        return search(store, prefetch=both, query=models.FusionQuery(fusion=models.Fusion.RRF))

    few = collection.first(20)
    words = few.through(lambda text: search(store, **vectors.query(text, "words")))
    assert words > 0.5
    assert few.through(fused) > max(words, few.direct()) - 0.1


def test_what_is_found_can_be_ranked_again(store, vectors, client, collection):
    query = collection.queries[0]
    texts = [
        collection.documents[collection.ids.index(one)]
        for one in search(store, **vectors.query(query, "meaning"))
    ]
    best = client.rerank(query, texts, MINILM, top_n=1)[0]
    assert collection.id_of(best.text) in collection.relevant[0]


def test_points_are_documents_and_a_question_is_a_query(sides):
    vectors = SieVectors(Client(sides.url), {"one": Vector("toy")})
    first, again = vectors.points(["a"]), vectors.points(["a"])
    assert first[0].id == again[0].id
    assert first[0].payload == {"text": "a"}
    assert vectors.query("a", "one") == {"query": [1.0, 1.0], "using": "one"}
    assert sides.taken() == [False, False, True]


def test_lists_that_do_not_fit_are_refused(sides):
    vectors = SieVectors(Client(sides.url), {"one": Vector("toy")})
    with pytest.raises(InvalidInput, match="2 texts, 1 payloads and 2 ids"):
        vectors.points(["a", "b"], [{}])
    with pytest.raises(InvalidInput, match="no vector 'two'; there are: one"):
        vectors.query("a", "two")
