"""`rerank`, as an agent calls it."""

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
QUERY = "blue cotton shirt"
DOCUMENTS = ["red wool hat", "blue cotton shirt", "a blue shirt", "shoes"]


async def test_the_best_document_comes_first_by_index_without_its_text(toolbox: Toolbox) -> None:
    answer = await toolbox.call("rerank", query=QUERY, documents=DOCUMENTS)
    assert answer["model"] == "toy-reranker"
    assert answer["score_type"] == "similarity"
    assert answer["count"] == 4
    assert [entry["index"] for entry in answer["results"]][:2] == [1, 2]
    assert answer["results"][0] == {"index": 1, "score": 1.0}
    assert "text" not in answer["results"][0]


async def test_scores_have_four_digits_and_ties_go_to_the_earlier_document(
    toolbox: Toolbox,
) -> None:
    answer = await toolbox.call("rerank", query=QUERY, documents=["x y", "a blue b", "p q"])
    assert answer["results"][0]["score"] == 0.3333
    assert [entry["index"] for entry in answer["results"]] == [1, 0, 2]


async def test_top_k_limits_the_list(toolbox: Toolbox) -> None:
    answer = await toolbox.call("rerank", query=QUERY, documents=DOCUMENTS, top_k=1)
    assert len(answer["results"]) == 1
    assert "omitted" not in answer


async def test_top_k_outside_its_limits_is_refused(toolbox: Toolbox) -> None:
    for top_k in (0, 101):
        text = await toolbox.error("rerank", query=QUERY, documents=DOCUMENTS, top_k=top_k)
        assert "top_k" in text


async def test_what_scores_below_min_score_is_left_out_and_counted(toolbox: Toolbox) -> None:
    answer = await toolbox.call("rerank", query=QUERY, documents=DOCUMENTS, min_score=0.5)
    assert [entry["index"] for entry in answer["results"]] == [1, 2]
    assert answer["below_min_score"] == 2


@pytest.mark.parametrize("bound", ["NaN", "inf", "-Infinity"])
async def test_a_bound_that_is_no_number_is_refused(toolbox: Toolbox, bound: object) -> None:
    text = await toolbox.error("rerank", query="q", documents=["a"], min_score=bound)
    assert "Input should be a finite number" in text


async def test_texts_come_back_on_request_as_long_as_they_fit(toolbox: Toolbox) -> None:
    long = "blue " * 3_000
    answer = await toolbox.call(
        "rerank", query=QUERY, documents=[*DOCUMENTS, long], return_text=True
    )
    texts = {entry["index"]: entry.get("text") for entry in answer["results"]}
    assert texts == {**dict(enumerate(DOCUMENTS)), 4: None}
    assert answer["texts_omitted"] == 1
    assert "filter_context" in answer["hint"]


async def test_a_long_list_is_cut_to_the_result_limit(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 100}
    documents = [{"id": f"document-{n}", "text": f"blue {n}"} for n in range(50)]
    answer = await toolbox.call("rerank", query=QUERY, documents=documents, top_k=50)
    assert len(answer["results"]) + answer["omitted"] == 50
    assert len(str(answer["results"])) < 100 * 4
    assert "top_k" in answer["hint"]


async def test_documents_longer_than_the_model_reads_are_flagged(toolbox: Toolbox) -> None:
    answer = await toolbox.call("rerank", query=QUERY, documents=["blue " * 60, "blue"])
    flags = {entry["index"]: entry.get("truncated") for entry in answer["results"]}
    assert flags == {0: True, 1: None}


async def test_rows_of_a_file_can_be_the_documents(toolbox: Toolbox) -> None:
    toolbox.write("shop.csv", "id,title,price\na,blue shirt,1\nb,,2\nc,blue cotton shirt,3\n")
    answer = await toolbox.call("rerank", query=QUERY, path="shop.csv", columns="title")
    assert answer["results"][0] == {"index": 2, "id": "c", "score": 1.0}
    assert answer["blank_rows"] == 1


async def test_the_named_model_is_asked(toolbox: Toolbox) -> None:
    await toolbox.call("rerank", query=QUERY, documents=["a"], model="org/other")
    assert toolbox.worker.calls[-1][:2] == ("score", "org/other")
