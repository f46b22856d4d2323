"""Haystack: a pipeline that embeds, retrieves and ranks, written down and read again."""

import pytest

from tests.integrations.collection import MINILM, POTION

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.retrievers import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

from sie_mcp.integrations.haystack import SieDocumentEmbedder, SieRanker, SieTextEmbedder


@pytest.fixture(scope="module")
def store(live, collection):
    made = InMemoryDocumentStore(embedding_similarity_function="cosine")
    pairs = zip(collection.ids, collection.documents, strict=True)
    documents = [Document(id=name, content=text) for name, text in pairs]
    made.write_documents(SieDocumentEmbedder(POTION, live).run(documents)["documents"])
    assert documents[0].embedding is None
    return made


@pytest.fixture(scope="module")
def pipeline(live, store):
    made = Pipeline()
    made.add_component("embedder", SieTextEmbedder(POTION, live))
    made.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=10))
    made.connect("embedder.embedding", "retriever.query_embedding")
    return made


def test_a_search_finds_what_the_vectors_say(pipeline, collection):
    def search(text: str) -> list[str]:
        return [
            one.id for one in pipeline.run({"embedder": {"text": text}})["retriever"]["documents"]
        ]

    assert collection.is_matched(search)


def test_what_is_found_is_ranked_again(live, pipeline, client, collection):
    query = collection.queries[0]
    found = pipeline.run({"embedder": {"text": query}})["retriever"]["documents"][:5]
    ranked = SieRanker(MINILM, live, top_k=3).run(query, found)["documents"]
    expected = client.rerank(query, [one.content for one in found], MINILM, top_n=3)
    assert [one.score for one in ranked] == pytest.approx([one.score for one in expected])
    assert ranked[0].id in collection.relevant[0]


def test_documents_are_documents_and_texts_queries(sides):
    SieDocumentEmbedder("toy", sides.url).run([Document(content="a")])
    assert SieTextEmbedder("toy", sides.url).run("7") == {"embedding": [7.0, 1.0]}
    assert sides.taken() == [False, True]
    assert SieDocumentEmbedder("toy", sides.url).run([]) == {"documents": []}
    assert SieRanker("toy", sides.url).run("q", []) == {"documents": []}


@pytest.mark.parametrize("cls", [SieTextEmbedder, SieDocumentEmbedder, SieRanker])
def test_a_component_is_written_down_without_its_key_and_read_again(cls, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    made = cls("toy", "http://127.0.0.1:9", api_key=Secret.from_env_var("MY_KEY"))
    written = made.to_dict()
    assert "secret" not in str(written)
    assert cls.from_dict(written).to_dict() == written


def test_fields_of_the_metadata_are_embedded_with_the_text(sides):
    embedder = SieDocumentEmbedder("toy", sides.url, meta_fields_to_embed=["title"])
    (found,) = embedder.run([Document(content="b", meta={"title": "a"})])["documents"]
    # The worker's vector begins with the length of what it was sent: "a\nb".
    assert found.embedding == [3.0, 1.0]
