"""The MCP server in memory when the engine fails or is slow: texts, deadlines, cancels, counts."""

import asyncio
import json
import logging

import anyio
import pytest
from mcp import MCPDeprecationWarning

from sie_mcp import metrics
from sie_mcp.errors import (
    ModelLoading,
    ModelNotFound,
    QueueFull,
    SettingError,
    SieError,
    WorkerUnavailable,
)
from tests.gateway.in_memory import CALL, broken, refusal, session, text_of
from tests.scripted_worker import fails_with, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]


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
        assert len((await client.list_tools()).tools) == 7


@pytest.mark.parametrize(("after_s", "says"), [(5.0, "5 s"), (0.2, "1 s"), (None, "1 s")])
async def test_a_worker_that_cannot_be_had_is_told(mode, after_s, says):
    async with broken(
        mode, WorkerUnavailable("ended at its start", retry_after_s=after_s)
    ) as client:
        text = await refusal(client, "list_models")
        assert text == (
            f"ended at its start (nothing is wrong with your call: repeat it in {says})"
        )


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


async def test_an_error_does_not_repeat_a_long_argument_whole(worker, mode):
    async with session(worker, mode, tools=("all",)) as client:
        text = await refusal(client, "explain", text="a", taxonomy="x" * 4_000)
    assert len(text) < 1_300
    assert text.startswith("no taxonomy 'xxx")
    assert text.endswith('a list of paths like ["A > B > C"]')


# Time.


async def test_a_call_has_a_deadline_and_says_what_to_change(worker, mode):
    worker.always = worker.hold(asyncio.Event())
    # Where the machine is busy, the first may be over before the worker hears of a call at all.
    for timeout_s in (0.2, 2.0, 8.0):
        async with session(worker, mode, tool_timeout_s=timeout_s) as client:
            text = await refusal(client, "rerank", **CALL)
            assert text == (
                f"rerank was not done after {timeout_s:g} s. Send fewer or shorter items at once, "
                "or have the server started with a longer SIE_MCP_TOOL_TIMEOUT_S."
            )
            if worker.seen:
                await until(lambda: worker.num_hung_up == len(worker.seen))
                return
    pytest.fail("no call came as far as the worker")


async def test_a_slow_call_blocks_nothing_and_a_cancelled_one_is_dropped(worker, mode, caplog):
    """Case T65, in memory."""
    async with session(worker, mode) as client:
        worker.script = [worker.hold(asyncio.Event())]
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "rerank", CALL)
            await until(lambda: len(worker.seen) == 1)
            with anyio.fail_after(30):
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

    before = count("rerank", "ok"), count("rerank", "error"), count("other", "error")
    async with session(worker, mode) as client:
        await client.call_tool("rerank", CALL)
        await refusal(client, "rerank", query="q")
        await refusal(client, "a" * 1_000)
    after = count("rerank", "ok"), count("rerank", "error"), count("other", "error")
    assert after == tuple(number + 1 for number in before)
    assert count("a" * 1_000, "error") == 0
