"""LlamaIndex: its own index and retriever, and its reranking of nodes."""

import pytest

from sie_mcp.client import Client
from sie_mcp.errors import InvalidInput
from tests.integrations.collection import MINILM, POTION
from tests.running import load, scores

pytest.importorskip("llama_index.core")

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode

from sie_mcp.integrations.llamaindex import SieEmbedding, SieRerank


@pytest.fixture(scope="module")
def retriever(client, collection):
    pairs = zip(collection.ids, collection.documents, strict=True)
    nodes = [TextNode(id_=name, text=text) for name, text in pairs]
    index = VectorStoreIndex(nodes, embed_model=SieEmbedding(client, POTION))
    return index.as_retriever(similarity_top_k=10)


def test_a_search_finds_what_the_vectors_say(retriever, collection):
    assert collection.is_matched(
        lambda text: [one.node.node_id for one in retriever.retrieve(text)]
    )


def test_what_is_found_is_ranked_again_by_the_engines_scores(retriever, client, collection, pulled):
    query = collection.queries[0]
    found = retriever.retrieve(query)[:5]
    ranked = SieRerank(client, MINILM, top_n=3).postprocess_nodes(found, query_str=query)
    expected = scores(load(pulled(MINILM)), query, [one.node.get_content() for one in found])
    assert [one.score for one in ranked] == pytest.approx(
        sorted(expected, reverse=True)[:3], abs=1e-5
    )
    assert ranked[0].node.node_id in collection.relevant[0]


async def test_texts_are_documents_and_questions_queries(sides, anyio_backend):
    model = SieEmbedding(Client(sides.url), "toy")
    assert model.get_text_embedding_batch(["1", "2"]) == [[1.0, 1.0], [2.0, 1.0]]
    assert model.get_query_embedding("3") == [3.0, 1.0]
    assert await model.aget_text_embedding("4") == [4.0, 1.0]
    assert await model.aget_query_embedding("5") == [5.0, 1.0]
    assert sides.taken() == [False, True, False, True]


def test_nodes_cannot_be_ranked_against_nothing(sides):
    reranker = SieRerank(Client(sides.url), "toy")
    with pytest.raises(InvalidInput, match="needs the query"):
        reranker.postprocess_nodes([NodeWithScore(node=TextNode(text="1"))])
    assert reranker.postprocess_nodes([], query_str="q") == []
