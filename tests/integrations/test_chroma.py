"""Chroma, in this process: a collection that embeds what is added and what is asked."""

import numpy as np
import pytest

from tests.integrations.collection import MINILM, POTION

pytest.importorskip("chromadb")

import chromadb

from sie_mcp.integrations.chroma import SieEmbeddingFunction


@pytest.fixture(scope="module")
def store(live, collection, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("chroma"))
    made = chromadb.PersistentClient(folder).create_collection(
        "paragraphs", embedding_function=SieEmbeddingFunction(POTION, live)
    )
    made.add(ids=collection.ids, documents=collection.documents)
    # Opened again without the function: its name and settings were kept.
    return chromadb.PersistentClient(folder).get_collection("paragraphs")


def test_a_search_finds_what_the_vectors_say(store, collection):
    assert collection.is_matched(
        lambda text: store.query(query_texts=[text], n_results=10)["ids"][0]
    )


def test_stored_vectors_are_the_engines(store, collection):
    found = store.get(ids=collection.ids[:3], include=["embeddings"])
    places = [collection.ids.index(one) for one in found["ids"]]
    np.testing.assert_allclose(found["embeddings"], collection.document_vectors[places], atol=1e-5)


def test_what_is_found_can_be_ranked_again(store, client, collection):
    query = collection.queries[0]
    found = store.query(query_texts=[query], n_results=10)["documents"][0]
    best = client.rerank(query, found, MINILM, top_n=1)[0]
    assert collection.id_of(best.text) in collection.relevant[0]


def test_what_is_added_is_a_document_and_what_is_asked_a_query(sides):
    function = SieEmbeddingFunction("toy", sides.url)
    function(["a", "b"])
    function.embed_query(["a"])
    assert sides.taken() == [False, True]


def test_a_key_is_kept_by_the_name_of_its_variable(sides, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    function = SieEmbeddingFunction("toy", sides.url, api_key_env_var="MY_KEY")
    assert "secret" not in str(function.get_config())
    again = SieEmbeddingFunction.build_from_config(function.get_config())
    assert again.get_config() == function.get_config()
    with pytest.raises(ValueError, match="model of a collection"):
        function.validate_config_update(function.get_config(), {"model": "other"})
