"""LangChain: its own vector store, and its reranking of what was retrieved."""

import pytest

from sie_mcp.client import Client
from tests.integrations.collection import MINILM, POTION
from tests.running import load, scores

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from sie_mcp.integrations.langchain import SieEmbeddings, SieReranker


@pytest.fixture(scope="module")
def store(client, collection):
    made = InMemoryVectorStore(SieEmbeddings(client, POTION))
    made.add_texts(collection.documents, [{"name": one} for one in collection.ids])
    return made


def test_a_search_finds_what_the_vectors_say(store, collection):
    assert collection.is_matched(
        lambda text: [one.metadata["name"] for one in store.similarity_search(text, k=10)]
    )


def test_what_is_found_is_ranked_again_by_the_engines_scores(store, client, collection, pulled):
    query = collection.queries[0]
    found = store.similarity_search(query, k=5)
    ranked = SieReranker(client=client, model=MINILM, top_n=3).compress_documents(found, query)
    expected = scores(load(pulled(MINILM)), query, [one.page_content for one in found])
    assert [one.metadata["relevance_score"] for one in ranked] == pytest.approx(
        sorted(expected, reverse=True)[:3], abs=1e-5
    )
    assert ranked[0].metadata["name"] in collection.relevant[0]
    assert "relevance_score" not in found[0].metadata


async def test_async_code_gets_the_same(sides, anyio_backend):
    embeddings = SieEmbeddings(Client(sides.url), "toy")
    assert await embeddings.aembed_documents(["1", "2"]) == [[1.0, 1.0], [2.0, 1.0]]
    assert await embeddings.aembed_query("3") == [3.0, 1.0]
    assert embeddings.embed_documents([]) == []
    assert sides.taken() == [False, True]
    reranker = SieReranker(client=Client(sides.url), model="toy")
    ranked = await reranker.acompress_documents([Document("1"), Document("2")], "q")
    assert [one.page_content for one in ranked] == ["2", "1"]
