"""LanceDB, on disk: a table that embeds what is added and what is asked."""

import pytest

from tests.integrations.collection import MINILM, POTION

pytest.importorskip("lancedb")

import lancedb
from lancedb.embeddings import get_registry
from lancedb.pydantic import LanceModel, Vector

import sie_mcp.integrations.lance  # noqa: F401 (registers itself)


@pytest.fixture(scope="module")
def table(live, collection, tmp_path_factory):
    function = get_registry().get("sie-mcp").create(model=POTION, url=live)

    class Paragraph(LanceModel):
        name: str
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()

    folder = tmp_path_factory.mktemp("lance")
    made = lancedb.connect(folder).create_table("paragraphs", schema=Paragraph)
    rows = zip(collection.ids, collection.documents, strict=True)
    made.add([{"name": name, "text": text} for name, text in rows])
    # Opened again: what a table keeps of the function is enough to search it.
    return lancedb.connect(folder).open_table("paragraphs")


def test_a_search_finds_what_the_vectors_say(table, collection):
    def search(query: str) -> list[str]:
        found = table.search(query).distance_type("cosine").limit(10).to_list()
        return [row["name"] for row in found]

    assert collection.is_matched(search)


def test_what_is_found_can_be_ranked_again(table, client, collection):
    found = table.search(collection.queries[0]).distance_type("cosine").limit(10).to_list()
    best = client.rerank(collection.queries[0], [row["text"] for row in found], MINILM)[0]
    assert found[best.index]["name"] in collection.relevant[0]


def test_a_column_holds_documents_and_a_search_is_a_query(sides):
    function = get_registry().get("sie-mcp").create(model="toy", url=sides.url)
    assert function.ndims() == 2
    function.compute_source_embeddings(["a", "b"])
    function.compute_query_embeddings("a")
    assert sides.taken() == [False, False, True]


def test_a_key_is_not_kept_in_a_table():
    with pytest.raises(ValueError, match="api_key"):
        get_registry().get("sie-mcp").create(model="toy", api_key="secret")
