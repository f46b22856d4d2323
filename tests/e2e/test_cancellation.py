"""Case T65 in every form there is: a client that wants no answer any more, and an empty queue.

In each the model is in the middle of a first batch, which nothing can stop, and what waits behind
it is dropped.

| transport | politely | by hanging up |
|---|---|---|
| stdio, either era | `test_over_stdio` | `test_over_stdio` |
| 2026-07-28, events or JSON | a task: `…_by_cancelling_a_task` | `…_closing_the_stream` |
| old era, stateful | `test_over_http_of_the_old_era` | the same |
| old era, stateless, events or JSON | the same; without a name: `…_unnamed_client` | the same |

A tool in a thread would run on: there is none (`tools/test_schemas.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.conftest import INITIALIZE, environment, stdio
from tests.e2e.toys_in_process import CALL, NUM_DOCUMENTS, Toys, front, toys
from tests.gateway.modern import Modern
from tests.redis_servers import redis_server
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio
LEGACY = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
POLITELY, BY_HANGING_UP = "politely", "by hanging up"


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Toys]:
    async with toys(tmp_path / "cache") as running:
        yield running


def request(method: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **more}


def call_request(number: int) -> dict[str, Any]:
    return request("tools/call", {"name": "rerank", "arguments": CALL}, id=number)


def notice(number: int) -> dict[str, Any]:
    return request("notifications/cancelled", {"requestId": number, "reason": "changed my mind"})


async def named(http: httpx2.AsyncClient) -> dict[str, str]:
    """Begin as a client of the old era does; return the headers of its later requests."""
    headers = {"Accept": LEGACY["Accept"]}
    answer = await http.post("/mcp", json=request("initialize", INITIALIZE, id=0), headers=headers)
    assert answer.status_code == 200
    headers = LEGACY | {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    begun = await http.post("/mcp", json=request("notifications/initialized", {}), headers=headers)
    assert begun.status_code == 202
    return headers


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("how", [POLITELY, BY_HANGING_UP])
async def test_over_stdio(worker: Toys, folder: Path, era: str, how: str) -> None:
    async with stdio(environment(folder, worker_url=worker.url), folder) as pipe:
        if era == "legacy":
            await pipe.initialize()
        call = call_request(7)
        if era == "modern":
            call["params"]["_meta"] = META
        await pipe.send(**{key: call[key] for key in ("id", "method", "params")})
        await worker.until_queued()
        if how == POLITELY:
            await pipe.send(method="notifications/cancelled", params={"requestId": 7})
        else:
            assert b'"result"' not in await pipe.end()
        await worker.until_dropped()


@pytest.mark.parametrize("mode", ["served", "json"])
@pytest.mark.parametrize("knows_tasks", [False, True])
async def test_over_http_of_2026_by_closing_the_stream(
    worker: Toys, mode: str, knows_tasks: bool
) -> None:
    async with front(worker.url, mode) as http:
        client = Modern(http, knows_tasks=knows_tasks)
        posted = client.post("tools/call", {"name": "rerank", "arguments": CALL})
        call = asyncio.create_task(http.post("/mcp", **posted))
        await worker.until_queued()
        call.cancel()
        await worker.until_dropped()


async def test_over_http_of_2026_by_cancelling_a_task(worker: Toys) -> None:
    async with front(worker.url, "served", task_after_s=0.05) as http:
        client = Modern(http)
        task_id = (await client.call("rerank", **CALL))["taskId"]
        await worker.until_queued()
        await client.result("tasks/cancel", taskId=task_id)
        await worker.until_dropped()
        assert (await client.ended(task_id))["status"] == "cancelled"


@pytest.mark.parametrize("mode", ["served", "json", "stateful"])
@pytest.mark.parametrize("how", [POLITELY, BY_HANGING_UP])
async def test_over_http_of_the_old_era(worker: Toys, mode: str, how: str) -> None:
    async with front(worker.url, mode) as http:
        headers = await named(http)
        call = asyncio.create_task(http.post("/mcp", json=call_request(7), headers=headers))
        await worker.until_queued()
        if how == POLITELY:
            heard = await http.post("/mcp", json=notice(7), headers=headers)
            assert heard.status_code == 202
        else:
            call.cancel()
        await worker.until_dropped()
        call.cancel()


async def test_a_notice_that_another_replica_hears_is_heeded_too(
    worker: Toys, tmp_path: Path
) -> None:
    with redis_server("in process", tmp_path) as uri:
        async with (
            front(worker.url, "served", results_uri=uri) as one,
            front(worker.url, "served", results_uri=uri) as other,
        ):
            headers = await named(one)
            call = asyncio.create_task(one.post("/mcp", json=call_request(7), headers=headers))
            await worker.until_queued()
            await other.post("/mcp", json=notice(7), headers=headers)
            await worker.until_dropped()
            call.cancel()


async def test_a_notice_of_somebody_else_is_not_heeded(worker: Toys) -> None:
    """Ids count from one: those of two clients are the same."""
    async with late_call(worker, named) as (http, call, mine):
        others = await named(http)
        assert mine != others
        for headers in (others, LEGACY, LEGACY | {"Mcp-Session-Id": ""}):
            await http.post("/mcp", json=notice(7), headers=headers)
        await http.post("/mcp", json=notice(8), headers=mine)
        await http.post("/mcp", json=notice("7"), headers=mine)  # type: ignore[arg-type]
        # It ends at its deadline, and so do its places in the queue.
        assert "was not done after" in (await call).text
        await until(lambda: worker.num_dropped + worker.num_expired >= NUM_DOCUMENTS // 2)


async def test_of_an_unnamed_client_the_deadline_ends_what_it_cancels(worker: Toys) -> None:
    async def unnamed(_: httpx2.AsyncClient) -> dict[str, str]:
        return LEGACY

    async with late_call(worker, unnamed) as (http, call, headers):
        await http.post("/mcp", json=notice(7), headers=headers)
        assert "was not done after" in (await call).text
        await until(lambda: worker.num_dropped + worker.num_expired >= NUM_DOCUMENTS // 2)


@asynccontextmanager
async def late_call(
    worker: Toys, hello: Callable[[httpx2.AsyncClient], Awaitable[dict[str, str]]]
) -> AsyncIterator[tuple[httpx2.AsyncClient, asyncio.Task[httpx2.Response], dict[str, str]]]:
    """Make call 7, which its deadline will end in the worker's queue; yield it and its headers.

    Where the machine is busy a short deadline may be over before it is there.
    """
    for timeout_s in (1.0, 5.0, 20.0):
        async with front(worker.url, "served", tool_timeout_s=timeout_s) as http:
            headers = await hello(http)
            call = asyncio.create_task(http.post("/mcp", json=call_request(7), headers=headers))
            await until(lambda: call.done() or worker.is_queued())  # noqa: B023 (at once)
            if not call.done():
                yield http, call, headers
                return
    pytest.fail("no call came as far as the queue")
