"""The limits on texts that every tool shares, and what their errors say."""

import json
from typing import Any

import pytest

from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
ASKED = {"query": "blue shirt"}
# tool -> (its argument for texts, what else it needs)
TAKES_TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rerank": ("documents", ASKED),
    "filter_context": ("texts", ASKED),
    "classify_taxonomy": ("texts", {"taxonomy": ["Shirts", "Shoes"]}),
    "extract_entities": ("texts", {}),
    "embed": ("texts", {}),
}
each_tool = pytest.mark.parametrize("tool", TAKES_TEXTS)


@each_tool
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_texts_come_plain_with_ids_or_as_a_json_string(
    toolbox: Toolbox, tool: str, mode: str
) -> None:
    toolbox.mode = mode
    argument, others = TAKES_TEXTS[tool]
    mixed = ["a blue shirt from Anna", {"id": 7, "text": "red shoes from Bob"}]
    answer = await toolbox.call(tool, **{argument: mixed}, **others)
    assert await toolbox.call(tool, **{argument: json.dumps(mixed)}, **others) == answer
    assert await toolbox.call(tool, **{argument: mixed}, **others) == answer
    if tool != "embed":
        assert "7" in [entry.get("id") for entry in answer["results"]]


@each_tool
async def test_no_texts_at_all_is_an_error_that_says_what_to_send(
    toolbox: Toolbox, tool: str
) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = await toolbox.error(tool, **{argument: []}, **others)
    assert text.endswith("is empty; send at least one text, or a file as `path`")


@each_tool
async def test_a_blank_text_is_named_by_its_index(toolbox: Toolbox, tool: str) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = await toolbox.error(tool, **{argument: ["fine", " \n\t"]}, **others)
    assert text.endswith("[1] is empty; send at least one non-space character")


@each_tool
async def test_too_many_texts_are_refused_with_the_limit_and_a_way_out(
    toolbox: Toolbox, tool: str
) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = await toolbox.error(tool, **{argument: ["a"] * 1_001}, **others)
    assert "has 1,001 items; the limit is 1,000" in text
    assert "put them in a file (10,000 rows)" in text
    toolbox.files_allowed = False
    assert "file" not in await toolbox.error(tool, **{argument: ["a"] * 1_001}, **others)


@each_tool
async def test_a_text_of_two_megabytes_is_refused_with_its_size(
    toolbox: Toolbox, tool: str
) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = await toolbox.error(tool, **{argument: ["a", "b" * 2_000_001]}, **others)
    assert "[1] has 2,000,001 characters; the limit is 2,000,000; split it" in text


@each_tool
async def test_texts_and_a_file_together_are_refused(toolbox: Toolbox, tool: str) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = await toolbox.error(tool, **{argument: ["a"]}, path="b.csv", **others)
    assert "or path, not both" in text


@each_tool
async def test_columns_without_a_file_are_refused(toolbox: Toolbox, tool: str) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = await toolbox.error(tool, **{argument: ["a"]}, columns=["title"], **others)
    assert text == "columns goes with path; leave it out"


@pytest.mark.parametrize("bad", [3, None, ["nested"]])
async def test_something_that_is_no_text_is_refused_with_what_it_is(
    toolbox: Toolbox, bad: Any
) -> None:
    text = await toolbox.error("embed", texts=["fine", bad])
    assert "texts.1" in text and 'should be a text or {"id": "…", "text": "…"}' in text


async def test_a_text_object_with_an_unknown_field_is_refused(toolbox: Toolbox) -> None:
    text = await toolbox.error("embed", texts=[{"text": "a", "title": "b"}])
    assert "texts.0.title" in text


async def test_a_text_object_without_text_is_refused(toolbox: Toolbox) -> None:
    assert "texts.0.text" in await toolbox.error("embed", texts=[{"id": "1"}])


async def test_a_plain_string_is_no_list_of_texts(toolbox: Toolbox) -> None:
    assert "valid list" in await toolbox.error("embed", texts="just one")


async def test_a_blank_query_is_refused(toolbox: Toolbox) -> None:
    text = await toolbox.error("rerank", query=" ", documents=["a"])
    assert text == "query is empty; send at least one non-space character"


async def test_a_query_as_long_as_a_document_is_refused(toolbox: Toolbox) -> None:
    text = await toolbox.error("filter_context", query="a" * 10_001, text="b")
    assert text.startswith("query has 10,001 characters; the limit is 10,000")


async def test_an_unknown_model_is_passed_on_with_what_is_known(toolbox: Toolbox) -> None:
    text = await toolbox.error("extract_entities", texts=["a"], labels=["NAME"], model="nope")
    assert text == "no model 'nope'; known: toy-embedder, toy-reranker, toy-extractor"


@each_tool
async def test_one_failed_text_is_listed_and_the_others_are_answered(
    toolbox: Toolbox, tool: str
) -> None:
    argument, others = TAKES_TEXTS[tool]
    texts = ["Anna has a blue shirt", "FAIL", "Bob has red shoes"]
    if tool == "filter_context":
        texts = [f"{text}. " * 200 for text in texts]
    answer = await toolbox.call(tool, **{argument: texts}, **others)
    failed = answer["failed"]
    assert failed["first"][0] == {"index": 1, "error": "no memory for this item"}
    assert len(failed["first"]) <= 5 <= max(5, failed["count"])


@each_tool
async def test_when_every_text_fails_the_error_is_raised(toolbox: Toolbox, tool: str) -> None:
    argument, others = TAKES_TEXTS[tool]
    text = "FAIL. " * 400
    assert await toolbox.error(tool, **{argument: [text]}, **others) == "no memory for this item"
