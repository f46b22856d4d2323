"""The client against a live gateway: its numbers are the engine's own."""

import numpy as np
import pytest

from sie_mcp.errors import InvalidInput, ModelNotFound
from tests.integrations.collection import MINILM, POTION, SPLADE
from tests.running import dense, encode, load, scores

TEXTS = ["A man is eating food.", "coffee", "Zürich – naïve café, 北京"]


def test_dense_vectors_are_the_engines(client, pulled):
    for model in (MINILM, POTION):
        found = client.embed(TEXTS * 60, model)
        expected = dense(load(pulled(model)), TEXTS)
        np.testing.assert_allclose(found, np.tile(expected, (60, 1)), atol=1e-5, rtol=0)


def test_sparse_vectors_are_the_engines(client, pulled):
    found = client.encode(TEXTS, SPLADE, outputs=["sparse"]).sparse
    expected = encode(load(pulled(SPLADE), tasks=("sparse",)), TEXTS, "sparse")
    for one, item in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.indices, item.sparse.indices)
        np.testing.assert_allclose(one.values, item.sparse.values, atol=1e-5, rtol=0)


def test_ranks_are_the_engines(client, pulled):
    expected = scores(load(pulled(MINILM)), "eating", TEXTS)
    ranked = client.rerank("eating", TEXTS, MINILM)
    assert [one.index for one in ranked] == list(np.argsort(-np.array(expected)))
    np.testing.assert_allclose(
        [one.score for one in ranked], sorted(expected, reverse=True), atol=1e-5
    )
    assert [one.text for one in ranked] == [TEXTS[one.index] for one in ranked]


def test_models_are_listed_and_unknown_ones_are_refused(client):
    assert {MINILM, POTION} <= {card.name for card in client.models().models}
    client.embed("x", MINILM)
    assert client.model(MINILM).dims["dense"] == 384
    with pytest.raises(ModelNotFound, match="no-such-model"):
        client.embed("x", "no-such-model")
    with pytest.raises(InvalidInput):
        client.embed([""], MINILM)
