"""The MCP server in memory: its tools, its words, and what it says to wrong calls."""

import json

import pytest

from sie_mcp.gateway.instructions import instructions_for
from tests.gateway.in_memory import CALL, STANDARD, broken, refusal, session, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]


async def test_tools_are_listed_without_a_worker(mode):
    async with broken(mode, AssertionError("no worker may be asked for")) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == STANDARD
        assert (await client.list_tools()).tools == tools
        assert client.instructions == instructions_for(STANDARD)
        assert client.server_info.name == "sie"


async def test_a_call_is_answered_in_one_block_equal_to_the_structure(worker, mode):
    async with session(worker, mode) as client:
        result = await client.call_tool("rerank", CALL)
        assert not result.is_error
        assert json.loads(text_of(result)) == result.structured_content
        assert [hit["index"] for hit in result.structured_content["results"]] == [1, 0]


# Wrong calls.


async def test_an_unknown_argument_is_refused_with_its_nearest_neighbour(worker, mode):
    async with session(worker, mode) as client:
        assert await refusal(client, "rerank", **CALL, topk=3) == (
            "Invalid arguments for rerank: topk is not an argument (did you mean top_k?). "
            "Fix these and call again."
        )
        text = await refusal(client, "rerank", **CALL, zzz=3)
        assert "zzz is not an argument (known: query, documents" in text
        text = await refusal(client, "rerank", **CALL | {"documents": [{"text": "a", "txt": "b"}]})
        assert "documents.0.txt is not an argument." in text
        text = await refusal(client, "rerank", **CALL, **{"x" * 100_000: 1})
        assert len(text) < 1_000
    assert worker.seen == []


async def test_an_array_given_as_a_json_string_is_taken(worker, mode):
    async with session(worker, mode) as client:
        result = await client.call_tool("rerank", CALL | {"documents": '["0.1", "0.9"]'})
        assert not result.is_error
        assert worker.seen[0].texts == ["0.1", "0.9"]


async def test_a_string_in_place_of_an_array_is_refused_with_the_right_form(worker, mode):
    async with session(worker, mode) as client:
        text = await refusal(client, "rerank", **CALL | {"documents": "0.1, 0.9"})
        assert 'documents must be a JSON array such as ["a", "b"], not a string' in text


async def test_several_wrong_arguments_are_named_together_without_urls_or_values(worker, mode):
    async with session(worker, mode) as client:
        text = await refusal(client, "rerank", query=3, documents=["a"], top_k=0)
        assert text.startswith("Invalid arguments for rerank: ")
        assert "query: " in text
        assert "top_k: " in text
        assert "http" not in text
        assert "input_value" not in text


async def test_many_wrong_arguments_do_not_flood_the_model(worker, mode):
    async with session(worker, mode) as client:
        text = await refusal(client, "rerank", query="q", documents=[3] * 500)
        assert "; and 495 more. Fix these" in text
        assert len(text) < 1_000


async def test_an_unknown_tool_is_refused_with_the_known_ones(worker, mode):
    async with session(worker, mode) as client:
        text = await refusal(client, "rank")
        assert text == f"There is no tool 'rank'; there are: {', '.join(STANDARD)}."


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ([], "documents is empty"),
        ([""], r"documents[0] is empty; send at least one non-space character"),
        (["ok", " \n"], r"documents[1] is empty"),
        (["x" * 3_000_000], "3,000,000 characters; the limit is 2,000,000"),
        (["a"] * 1_001, "1,001 items; the limit is 1,000"),
    ],
    ids=["no list", "empty", "blank", "too long", "too many"],
)
async def test_bad_texts_are_refused_before_the_worker_is_asked(worker, mode, documents, says):
    async with session(worker, mode) as client:
        assert says in await refusal(client, "rerank", query="q", documents=documents)
    assert worker.seen == []


async def test_a_lone_surrogate_is_refused(worker, mode):
    async with session(worker, mode) as client:
        text = await refusal(client, "rerank", query="q", documents=["ok", "\ud83d"])
        assert "valid Unicode" in text
    assert worker.seen == []


async def test_a_long_text_passes(worker, mode):
    async with session(worker, mode) as client:
        result = await client.call_tool("rerank", CALL | {"documents": ["x" * 1_000_000]})
        assert not result.is_error
