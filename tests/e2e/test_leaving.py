"""SIGTERM with somebody hanging on: the process ends within its bound, whatever is open."""

import asyncio
import json
import signal
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from tests.e2e.conftest import gateway
from tests.gateway.front import ITEMS, raw_call
from tests.scripted_worker import ScriptedWorker, until

pytestmark = pytest.mark.anyio
GRACEFUL_S = 1
# Its graceful time, closing, and a slow machine.
BOUND_S = GRACEFUL_S + 5 + 10


def sent(url: str, content: bytes) -> socket.socket:
    """Open a connection, send this and say no more."""
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname, parts.port), timeout=30)
    made.sendall(content)
    return made


def request_of(call: dict, *, missing: int = 0) -> bytes:
    """Return the bytes of a call to /mcp, without the last few."""
    body = json.dumps(call["json"]).encode()
    headers = call["headers"] | {"Host": "localhost:1", "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body[: len(body) - missing]


def listening(version: str) -> dict:
    """Return a call that would stay open for ever."""
    call = raw_call(version)
    call["json"] |= {"method": "subscriptions/listen"}
    call["json"]["params"] = {
        "_meta": call["json"]["params"]["_meta"],
        "notifications": {"toolsListChanged": True},
    }
    call["headers"] |= {"Mcp-Method": "subscriptions/listen"}
    del call["headers"]["Mcp-Name"]
    return call


async def ended(process) -> float:
    """Return after how long the process is gone."""
    started_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = await anyio.to_thread.run_sync(process.wait, BOUND_S)
    assert code is not None
    return time.monotonic() - started_s


async def test_open_streams_and_silent_callers_do_not_hold_the_end_up(folder):
    worker = ScriptedWorker()
    async with worker.running() as worker_url:
        settings = {"graceful_timeout_s": str(GRACEFUL_S)}
        with ExitStack() as held, gateway(folder, worker_url, **settings) as (url, process):
            for content in (
                request_of(listening("2026-07-28")),
                request_of(raw_call("2025-11-25"), missing=10),
                b"POST /v1/encode/toy HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 9\r\n\r\n{",
                b"POST /mcp HTTP/1.1\r\nHost: local",
                b"",
            ):
                held.enter_context(sent(url, content))
            # What came before this one is there.
            assert (await post(url)).status_code == 200
            assert await ended(process) < BOUND_S


async def test_a_call_that_never_ends_is_cut_off(folder):
    worker = ScriptedWorker()
    worker.script = [worker.hold(asyncio.Event())] * 2
    async with worker.running() as worker_url:
        settings = {"graceful_timeout_s": str(GRACEFUL_S)}
        with (
            gateway(folder, worker_url, **settings) as (url, process),
            sent(url, request_of(raw_call("2026-07-28"))),
            sent(url, request_of(raw_call("2025-11-25"))),
        ):
            await until(lambda: len(worker.seen) == 2)
            assert await ended(process) < BOUND_S
            # Nothing runs on at the worker.
            await until(lambda: worker.num_hung_up == 2)


async def test_a_gateway_that_drains_is_not_ready_but_still_answers(folder):
    worker = ScriptedWorker()
    async with worker.running() as worker_url:
        settings = {"graceful_timeout_s": str(GRACEFUL_S), "drain_s": "60"}
        with gateway(folder, worker_url, **settings) as (url, process):
            process.send_signal(signal.SIGTERM)
            async with httpx2.AsyncClient(base_url=url) as http:
                with anyio.fail_after(20):
                    while (await http.get("/readyz")).json()["status"] != "draining":
                        await anyio.sleep(0.01)
            assert (await post(url)).status_code == 200
            # A second signal: do not wait for the rest.
            assert await ended(process) < BOUND_S


async def post(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
        return await http.post("/v1/encode/toy", json=ITEMS)
