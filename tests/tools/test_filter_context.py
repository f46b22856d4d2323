"""`filter_context`, as an agent calls it."""

import pytest

from sie_mcp.tools.result import estimate_tokens
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
NOISE = [f"Sentence number {n} talks about weather and roads." for n in range(60)]
QUERY = "Who painted the violet door?"
FACT = "The violet door was painted by Anna in 1931."


def document(at: int) -> str:
    return " ".join([*NOISE[:at], FACT, *NOISE[at:]])


async def test_the_sentence_that_matters_is_kept_with_its_neighbours(toolbox: Toolbox) -> None:
    text = document(30)
    answer = await toolbox.call("filter_context", query=QUERY, text=text, max_tokens=60)
    (kept,) = answer["results"]
    assert f"{NOISE[29]} {FACT} {NOISE[30]}" in kept["text"]
    assert answer["kept_tokens"] <= 60 < answer["total_tokens"]
    assert answer["kept_tokens"] == estimate_tokens(kept["text"])
    assert answer["total_sentences"] == 61


async def test_spans_are_offsets_of_the_original_text_in_order(toolbox: Toolbox) -> None:
    text = document(40)
    answer = await toolbox.call("filter_context", query=QUERY, text=text, max_tokens=100)
    (kept,) = answer["results"]
    pieces = [text[start:end] for _, start, end in kept["spans"]]
    assert " […] ".join(pieces) == kept["text"]
    assert kept["spans"] == sorted(kept["spans"])
    first, start, end = next(span for span in kept["spans"] if FACT in text[span[1] : span[2]])
    assert text[start:end].startswith((FACT, NOISE[first]))


async def test_a_text_that_fits_comes_back_whole_without_a_model(toolbox: Toolbox) -> None:
    answer = await toolbox.call("filter_context", query=QUERY, text=f"{FACT}\n\n\n\n{NOISE[0]}")
    assert answer["results"][0]["text"] == f"{FACT}\n\n{NOISE[0]}"
    assert "model" not in answer
    assert answer["kept_sentences"] == answer["total_sentences"] == 2
    assert toolbox.worker.calls == []


async def test_several_texts_share_the_budget_and_keep_their_source(toolbox: Toolbox) -> None:
    texts = [" ".join(NOISE), {"id": "art", "text": document(3)}, " ".join(NOISE)]
    answer = await toolbox.call("filter_context", query=QUERY, texts=texts, max_tokens=50)
    best = next(entry for entry in answer["results"] if FACT in entry["text"])
    assert (best["index"], best["id"]) == (1, "art")
    assert sum(estimate_tokens(entry["text"]) for entry in answer["results"]) <= 50


async def test_a_best_sentence_longer_than_the_budget_is_cut(toolbox: Toolbox) -> None:
    fact = "The violet door " + "was painted violet " * 30
    answer = await toolbox.call(
        "filter_context", query=QUERY, text=f"{fact}. {' '.join(NOISE)}", max_tokens=50
    )
    (kept,) = answer["results"]
    assert fact.startswith(kept["text"]) and 150 < len(kept["text"]) <= 200
    assert kept["spans"] == [[0, 0, len(kept["text"])]]


async def test_a_json_text_is_a_text_and_not_parsed(toolbox: Toolbox) -> None:
    answer = await toolbox.call("filter_context", query=QUERY, text='{"door": "violet"}')
    assert answer["results"][0]["text"] == '{"door": "violet"}'


async def test_a_document_is_read_from_a_file_the_agent_never_sees(toolbox: Toolbox) -> None:
    toolbox.write("art.md", document(5))
    answer = await toolbox.call("filter_context", query=QUERY, path="art.md", max_tokens=60)
    assert FACT in answer["results"][0]["text"]


async def test_rows_of_a_table_are_texts_of_their_own(toolbox: Toolbox) -> None:
    toolbox.write("notes.csv", "id,text\n1,\n2," + document(9) + "\n3," + " ".join(NOISE) + "\n")
    answer = await toolbox.call("filter_context", query=QUERY, path="notes.csv", max_tokens=60)
    best = next(entry for entry in answer["results"] if FACT in entry["text"])
    assert (best["index"], best["id"]) == (1, "2")
    assert answer["blank_rows"] == 1


async def test_text_and_texts_together_are_refused(toolbox: Toolbox) -> None:
    text = await toolbox.error("filter_context", query=QUERY, text="a", texts=["b"])
    assert text == "send text or texts, not both"


async def test_more_sentences_than_the_limit_are_refused(toolbox: Toolbox) -> None:
    text = await toolbox.error("filter_context", query=QUERY, text="One more. " * 10_001)
    assert "hold 10,001 sentences; the limit is 10,000; filter them in parts" in text


async def test_a_budget_above_the_servers_limit_is_lowered_and_said(toolbox: Toolbox) -> None:
    toolbox.settings = {"max_result_tokens": 400}
    answer = await toolbox.call("filter_context", query=QUERY, text=document(1), max_tokens=9_000)
    assert answer["limited_to"] == 300
    assert answer["kept_tokens"] <= 300
    assert estimate_tokens(str(answer)) <= 420


async def test_the_same_call_gives_the_same_answer(toolbox: Toolbox) -> None:
    first = await toolbox.call("filter_context", query=QUERY, text=document(7), max_tokens=99)
    assert first == await toolbox.call(
        "filter_context", query=QUERY, text=document(7), max_tokens=99
    )


async def test_a_failed_sentence_is_reported_and_the_rest_kept(toolbox: Toolbox) -> None:
    text = f"FAIL this one please. {document(2)}"
    answer = await toolbox.call("filter_context", query=QUERY, text=text, max_tokens=60)
    assert answer["failed"]["count"] == 1
    assert FACT in answer["results"][0]["text"]
