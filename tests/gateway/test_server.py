"""The MCP server in memory, over a scripted worker: what stands around every tool call."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client, MCPDeprecationWarning

from sie_mcp import metrics
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Address, FixedEndpoint
from sie_mcp.errors import (
    ModelLoading,
    ModelNotFound,
    QueueFull,
    SettingError,
    SieError,
    WorkerUnavailable,
)
from sie_mcp.gateway.server import INSTRUCTIONS, build_server
from tests.scripted_worker import ScriptedWorker, fails_with, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]

CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}
TOOLS = [
    "rerank",
    "filter_context",
    "classify_taxonomy",
    "extract_entities",
    "embed",
    "list_models",
]


@pytest.fixture
def worker() -> ScriptedWorker:
    return ScriptedWorker()


@asynccontextmanager
async def session(worker: ScriptedWorker, mode: str, **settings: float) -> AsyncIterator[Client]:
    """A client of a server whose tools talk to the worker."""
    config = Config(load_wait_s=0.2, **settings)
    async with worker.running() as url:
        engine = EngineClient(FixedEndpoint(url), load_wait_s=config.load_wait_s)
        server = build_server(engine, config, files_allowed=True)
        try:
            async with Client(server, mode=mode) as client:
                yield client
        finally:
            await engine.aclose()


@asynccontextmanager
async def broken(mode: str, error: Exception) -> AsyncIterator[Client]:
    """A client of a server whose every way to a worker ends in an error."""

    class Nowhere:
        async def address(self) -> Address:
            raise error

        async def lost(self, address: Address) -> None:
            raise AssertionError("nothing was found that could be lost")

    config = Config()
    server = build_server(EngineClient(Nowhere()), config, files_allowed=True)
    async with Client(server, mode=mode) as client:
        yield client


def text_of(result) -> str:
    (block,) = result.content
    return block.text


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool wrongly; return what the model reads."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


async def test_tools_are_listed_without_a_worker(mode):
    async with broken(mode, AssertionError("no worker may be asked for")) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS
        assert (await client.list_tools()).tools == tools
        assert client.instructions == INSTRUCTIONS
        assert client.server_info.name == "sie"


async def test_the_instructions_name_every_tool_and_fit_every_client(mode):
    assert len(INSTRUCTIONS) < 2_048
    assert all(f"`{name}`" in INSTRUCTIONS for name in TOOLS)


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
        assert text == f"There is no tool 'rank'; there are: {', '.join(TOOLS)}."


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


# Failures of the engine.


async def test_a_failure_the_caller_can_mend_keeps_its_text(worker, mode):
    worker.script = [fails_with(ModelNotFound("no model 'x'; known: toy"))]
    async with session(worker, mode) as client:
        assert await refusal(client, "rerank", **CALL) == "no model 'x'; known: toy"


async def test_a_failure_that_passes_says_to_call_again_and_when(worker, mode, monkeypatch):
    monkeypatch.setattr("sie_mcp.retry.MAX_TRIES", {"QUEUE_FULL": 1})
    worker.script = [fails_with(QueueFull("the queue is full"), retry_after="3")]
    async with session(worker, mode) as client:
        text = await refusal(client, "rerank", **CALL)
        assert text == ("the queue is full (nothing is wrong with your call: repeat it in 3 s)")


async def test_a_missing_engine_is_told_with_the_command_that_installs_it(mode):
    error = SettingError("the local worker cannot start: run: pip install 'sie-mcp[engine]'")
    async with broken(mode, error) as client:
        assert "pip install 'sie-mcp[engine]'" in await refusal(client, "rerank", **CALL)
        assert len((await client.list_tools()).tools) == 6


async def test_a_worker_that_cannot_be_had_is_told(mode):
    async with broken(mode, WorkerUnavailable("ended at its start", retry_after_s=5)) as client:
        text = await refusal(client, "list_models")
        assert text.startswith("ended at its start (nothing is wrong with your call: repeat it in")


async def test_an_unforeseen_failure_is_masked_and_logged(mode, caplog):
    async with broken(mode, KeyError("a secret")) as client:
        with caplog.at_level(logging.ERROR):
            text = await refusal(client, "list_models")
        assert text.startswith("list_models failed on the server, not because of your arguments.")
        assert "KeyError: 'a secret'" in caplog.text


async def test_a_failure_that_was_foreseen_is_not_logged_as_one(worker, mode, caplog):
    worker.script = [fails_with(SieError("internal error; see the worker's log"))]
    async with session(worker, mode) as client:
        with caplog.at_level(logging.WARNING):
            assert "see the worker's log" in await refusal(client, "rerank", **CALL)
    assert caplog.text == ""


async def test_a_load_that_lasts_is_told_as_loading_in_text_and_structure(worker, mode):
    """Case T64: an error for the client, and an instruction for the model."""
    worker.always = fails_with(ModelLoading("loading toy"), retry_after="2")
    heard: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with session(worker, mode) as client:
        result = await client.call_tool("rerank", CALL, progress_callback=progress)
        assert result.is_error
        body = json.loads(text_of(result))
        assert body["status"] == "loading"
        assert body["retry_after_s"] == 2
        assert "repeat the same call in 2 s" in body["message"]
        assert result.structured_content == body
        assert any("loading toy" in message for message in heard)
        worker.always = None
        assert not (await client.call_tool("rerank", CALL)).is_error


# Time.


async def test_a_call_has_a_deadline_and_says_what_to_change(worker, mode):
    worker.always = worker.hold(asyncio.Event())
    async with session(worker, mode, tool_timeout_s=0.2) as client:
        text = await refusal(client, "rerank", **CALL)
        assert text == "rerank was not done after 0.2 s. Send fewer or shorter items at once."
        await until(lambda: worker.num_hung_up == 1)


async def test_a_slow_call_blocks_nothing_and_a_cancelled_one_is_dropped(worker, mode, caplog):
    """Case T65, in memory."""
    async with session(worker, mode) as client:
        worker.script = [worker.hold(asyncio.Event())]
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "rerank", CALL)
            await until(lambda: len(worker.seen) == 1)
            with anyio.fail_after(5):
                assert (await client.list_tools()).tools
                assert not (await client.call_tool("rerank", CALL)).is_error
                if mode == "legacy":
                    with pytest.warns(MCPDeprecationWarning):
                        await client.send_ping()
            assert worker.num_hung_up == 0
            group.cancel_scope.cancel()
        await until(lambda: worker.num_hung_up == 1)
        assert not (await client.call_tool("rerank", CALL)).is_error
    assert "ERROR" not in caplog.text


# Numbers.


async def test_calls_are_counted_by_known_names_only(worker, mode):
    def count(tool: str, outcome: str) -> float:
        labels = {"tool": tool, "outcome": outcome}
        return metrics.REGISTRY.get_sample_value("sie_tool_calls_total", labels) or 0.0

    before = count("rerank", "ok"), count("rerank", "error"), count("unknown", "error")
    async with session(worker, mode) as client:
        await client.call_tool("rerank", CALL)
        await refusal(client, "rerank", query="q")
        await refusal(client, "a" * 1_000)
    after = count("rerank", "ok"), count("rerank", "error"), count("unknown", "error")
    assert after == tuple(number + 1 for number in before)
    assert count("a" * 1_000, "error") == 0
