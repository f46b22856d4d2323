"""A real worker process that fails, hangs or is told to leave; and the gateway before it."""

import asyncio
import re
import signal
import sys
from typing import Any

import anyio
import httpx2
import pytest

from sie_mcp.engine.watchdog import EXIT_FAILED
from tests.e2e.conftest import START_LIMIT_S, environment, serving, worker_pids
from tests.e2e.test_local_worker import CALL, WITH_TOYS, client

pytestmark = pytest.mark.anyio

TOYS = [sys.executable, "-m", "tests.toy_worker"]


async def encode(url: str, *texts: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=START_LIMIT_S) as http:
        body = {"items": [{"text": text} for text in texts]}
        return await http.post(f"{url}/v1/encode/toy", json=body)


@pytest.mark.parametrize("text", ["lethal", "endless"])
def test_a_worker_that_lost_its_device_says_so_and_ends_with_a_status_of_its_own(folder, text):
    env = environment(folder, max_forward_s="1")
    log = folder / "worker.log"
    with serving(TOYS, env, log) as (url, process):
        answer = asyncio.run(encode(url, text))
        assert (answer.status_code, answer.headers["x-sie-error-code"]) == (503, "WORKER_LOST")
        assert process.wait(30) == EXIT_FAILED
        assert "the device is given up" in log.read_text()


def test_a_worker_that_is_told_to_leave_finishes_what_runs_and_ends_with_zero(folder):
    held = folder / "held"
    held.touch()
    command = [*TOYS, "--held-by", str(held), "--forward-s", "1"]
    with serving(command, environment(folder), folder / "worker.log") as (url, process):

        async def scenario() -> httpx2.Response:
            call = asyncio.create_task(encode(url, "x"))
            await until_in_hand(url)
            process.send_signal(signal.SIGTERM)
            held.unlink()
            return await call

        assert asyncio.run(scenario()).status_code == 200
        assert process.wait(30) == 0


def test_what_does_not_finish_in_the_graceful_time_is_answered_and_the_end_is_bounded(folder):
    env = environment(folder, graceful_timeout_s="2", max_forward_s="60")
    with serving(TOYS, env, folder / "worker.log") as (url, process):

        async def scenario() -> httpx2.Response:
            call = asyncio.create_task(encode(url, "endless"))
            await until_in_hand(url)
            process.send_signal(signal.SIGTERM)
            return await call

        answer = asyncio.run(scenario())
        assert answer.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
        assert process.wait(40) == 0


async def test_a_text_that_ends_workers_is_refused_and_calls_beside_it_are_answered(folder):
    results: dict[str, Any] = {}

    async def call(name: str, *documents: str) -> None:
        arguments = CALL | {"documents": ["0.1", *documents]}
        results[name] = await session.call_tool("rerank", arguments)

    env = environment(folder, load_wait_s="50")
    with anyio.fail_after(110):
        async with client(env, "auto", WITH_TOYS) as session:
            await call("before", "0.9")
            (first,) = worker_pids(folder)
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(call, f"beside {number}", f"0.{number}")
                group.start_soon(call, "lethal", "a lethal text")
            await call("after", "0.9")
            (last,) = worker_pids(folder)
    assert last != first
    refused = results.pop("lethal")
    assert refused.is_error
    assert "ended 2 times while it ran this request" in refused.content[0].text
    for name, result in results.items():
        assert not result.is_error, (name, result.content[0].text)


NOTHING_WAITS = re.compile(r"sie_queue_sequences\{.*\} 0\.0")


async def until_in_hand(url: str) -> None:
    """Wait until the worker runs a request."""
    async with httpx2.AsyncClient(timeout=START_LIMIT_S) as http:
        page = ""
        while "sie_requests_in_flight 1.0" not in page or not NOTHING_WAITS.search(page):
            page = (await http.get(f"{url}/metrics")).text
            await asyncio.sleep(0.01)
