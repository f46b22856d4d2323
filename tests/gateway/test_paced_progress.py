"""Progress as a client hears it: from every tool, at a pace, in numbers that grow."""

import asyncio
import importlib
import itertools
import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from sie_mcp.gateway.paced_progress import BURST, PER_SECOND, SILENT_S, PacedSession
from sie_mcp.tools.registry import build_tools
from tests.gateway.in_memory import session
from tests.picture_files import noise, saved
from tests.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.anyio
TEXTS = {"texts": ["0.1", "0.9"]}
# Arguments with which each tool works; a tool without any here fails.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "rerank": {"query": "a text", "documents": ["0.1", "0.9"]},
    "filter_context": {"query": "q", "text": "A sentence to keep or not. " * 200},
    "search_files": {"query": "what", "paths": ["*.md"]},
    "classify_taxonomy": {**TEXTS, "taxonomy": ["a > b", "a > c"]},
    "review_uncertain": {"path": "classified.jsonl"},
    "store_corrections": {
        "path": "classified.jsonl",
        "corrections": [{"index": 0}],
        "examples": "examples.csv",
        "taxonomy": ["a > b"],
    },
    "explain": {"text": "a text", "taxonomy": ["a > b", "a > c"]},
    "classify": {**TEXTS, "labels": ["0.1", "0.9"]},
    "extract_entities": TEXTS,
    "extract_relations": {**TEXTS, "relations": ["works for"]},
    "extract_structured": {**TEXTS, "schema": {"properties": {"name": {"type": "string"}}}},
    "detect_pii": TEXTS,
    "redact": TEXTS,
    "embed": TEXTS,
    "find_similar": {"text": "what", "paths": ["*.md"]},
    "deduplicate": TEXTS,
    "cluster": {"texts": ["0.1", "0.2", "0.8", "0.9"]},
    "list_models": {},
    "search_images": {"query": "a cat"},
    "classify_images": {"labels": ["a cat", "a dog"]},
    "detect_objects": {"labels": ["a cat"]},
    "describe_image": {},
    "map_taxonomy": {"source": ["a > b"], "target": ["a > c", "d"], "output_path": "m.jsonl"},
}
# What needs no model has no worker that could be slow; it reads a file.
READ = "sie_mcp.tools.categories.classified_file.read_text"
WITHOUT_WORKER = {"review_uncertain": READ, "store_corrections": READ}


def fill(folder: Path) -> None:
    """Write the files that the arguments name."""
    (folder / "a.md").write_text("What is there.\n")
    (folder / "a.png").write_bytes(saved(noise(8, 8)))
    row = {"index": 0, "text": "a", "path": "a > b", "confidence": 0.5}
    (folder / "classified.jsonl").write_text(json.dumps(row))


@pytest.mark.parametrize("tool", [tool.name for tool in build_tools()])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_tool_is_heard_of_while_its_work_is_slow(
    worker: ScriptedWorker, tool: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that goes on only when the client has heard something."""
    fill(tmp_path)
    heard, gate, slow = asyncio.Event(), asyncio.Event(), threading.Event()
    numbers: list[float] = []
    worker.always = worker.hold(gate)
    started = worker.seen
    if tool in WITHOUT_WORKER:
        started = slowed(WITHOUT_WORKER[tool], slow, monkeypatch)

    async def listen(done: float, total: float | None, message: str | None) -> None:
        assert message
        numbers.append(done)
        # Of the file that is read it hears before anything is slow.
        if started:
            heard.set()

    settings = {"tools": ("all",), "allow": (tmp_path,), "cache_dir": tmp_path / "cache"}
    async with session(worker, mode, **settings) as client, anyio.create_task_group() as group:

        async def call() -> None:
            await client.call_tool(tool, ARGUMENTS[tool], progress_callback=listen)

        group.start_soon(call)
        try:
            with anyio.fail_after(20):
                await heard.wait()
        finally:
            gate.set()
            slow.set()
    assert started, f"{tool} did no work with its arguments"
    assert all(before < after for before, after in itertools.pairwise(numbers))


def slowed(name: str, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let a function wait for the gate; return the list of its calls."""
    calls: list[Any] = []
    module, _, function = name.rpartition(".")
    plain = getattr(importlib.import_module(module), function)

    def wait(*arguments: Any) -> Any:
        calls.append(arguments)
        assert gate.wait(30)
        return plain(*arguments)

    monkeypatch.setattr(name, wait)
    return calls


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
