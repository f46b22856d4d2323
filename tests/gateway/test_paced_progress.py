"""Progress as a client hears it: from every tool, at a pace, in numbers that grow."""

import asyncio
import itertools
from typing import Any

import anyio
import pytest
from mcp import Client

from sie_mcp.gateway.paced_progress import BURST, PER_SECOND, SILENT_S, PacedSession
from sie_mcp.tools.registry import choose_tools
from tests.gateway.in_memory import session
from tests.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.anyio
# Tools whose arguments cannot be made up from their schema.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_files": {"query": "what", "paths": ["*.md"]},
    "filter_context": {"query": "q", "text": "A sentence to keep or not. " * 200},
}
# A list of texts by any name that a tool has for it.
LISTS = ("texts", "documents", "items", "labels", "classes", "categories")


def arguments_of(tool: Any) -> dict[str, Any]:
    """Make up arguments that make a tool work."""
    if tool.name in ARGUMENTS:
        return ARGUMENTS[tool.name]
    fields, needed = tool.parameters["properties"], tool.parameters.get("required", [])
    made: dict[str, Any] = dict.fromkeys(needed, "a text")
    made |= {name: ["0.1", "0.9"] for name in LISTS if name in fields}
    return made | ({"taxonomy": ["a > b", "a > c"]} if "taxonomy" in fields else {})


@pytest.mark.parametrize("tool", choose_tools(["standard"]), ids=lambda tool: tool.name)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_tool_is_heard_of_while_its_work_is_slow(
    worker: ScriptedWorker, tool: Any, mode: str, tmp_path
) -> None:
    """A worker that answers nothing until the client has heard something."""
    (tmp_path / "a.md").write_text("What is there.\n")
    heard, gate = asyncio.Event(), asyncio.Event()
    numbers: list[float] = []
    worker.always = worker.hold(gate)

    async def listen(done: float, total: float | None, message: str | None) -> None:
        assert message
        numbers.append(done)
        # Of the file that is read it hears before anything is slow.
        if worker.seen:
            heard.set()

    settings = {"tools": ("all",), "allow": (tmp_path,), "cache_dir": tmp_path / "cache"}
    async with session(worker, mode, **settings) as client, anyio.create_task_group() as group:

        async def call() -> None:
            await client.call_tool(tool.name, arguments_of(tool), progress_callback=listen)

        group.start_soon(call)
        with anyio.fail_after(20):
            await heard.wait()
        gate.set()
    assert worker.seen, f"{tool.name} did no work with these arguments; add some to ARGUMENTS"
    assert all(before < after for before, after in itertools.pairwise(numbers))


class Sink:
    """Hears what is sent on."""

    now_s = 0.0

    def __init__(self) -> None:
        self.sent: list[tuple[float, float | None, str | None]] = []

    async def report_progress(self, *report: Any) -> None:
        self.sent.append(report)

    def clock(self) -> float:
        return self.now_s


def paced() -> tuple[Sink, PacedSession]:
    sink = Sink()
    return sink, PacedSession(sink, sink.clock)  # type: ignore[arg-type]


async def test_of_many_reports_at_once_some_are_left_out_but_never_the_last() -> None:
    sink, session_ = paced()
    for number in range(1, 1_001):
        sink.now_s += 0.001
        await session_.report_progress(number, 1_000, f"{number}")
    assert len(sink.sent) <= BURST + PER_SECOND + 1
    sink.now_s += 1 / PER_SECOND
    await session_.look()
    assert sink.sent[-1] == (1_000, 1_000, "1000")
    numbers = [number for number, _, _ in sink.sent]
    assert numbers == sorted(set(numbers))


async def test_silence_is_broken_with_what_was_said_last() -> None:
    sink, session_ = paced()
    await session_.look()
    assert sink.sent == []
    sink.now_s = SILENT_S
    await session_.look()
    assert sink.sent == [(0.01, None, "working")]
    await session_.report_progress(3, 10, "reading")
    sink.now_s += SILENT_S / 2
    await session_.look()
    assert len(sink.sent) == 2
    sink.now_s += SILENT_S / 2
    await session_.look()
    assert sink.sent[1:] == [(3, 10, "reading"), (3.01, 10, "reading")]


async def test_a_number_that_falls_behind_still_grows() -> None:
    sink, session_ = paced()
    for number in (5, 0, 0, 6):
        await session_.report_progress(number, 10, "part")
    numbers = [number for number, _, _ in sink.sent]
    assert numbers[0] == 5 and numbers[-1] == 6
    assert all(before < after for before, after in itertools.pairwise(numbers))


async def test_who_did_not_ask_hears_nothing(worker: ScriptedWorker) -> None:
    async with session(worker, "auto") as client:
        assert isinstance(client, Client)
        result = await client.call_tool("rerank", {"query": "q", "documents": ["1"]})
        assert not result.is_error
