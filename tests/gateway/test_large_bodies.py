"""Large bodies through a gateway: on as they come, within all limits, sent once."""

import asyncio
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sie_mcp.access.allowance import SCOPE_KEY, Allowance
from sie_mcp.access.principal import CallerLimits, Principal
from sie_mcp.access.rates import Rates
from sie_mcp.connection import Endpoint, FixedEndpoint
from sie_mcp.errors import WorkerLost
from sie_mcp.gateway.incoming import BodyLimits
from sie_mcp.gateway.proxy import Proxy
from tests.gateway.front import ITEMS, gateway
from tests.scripted_worker import fails_with, until
from tests.servers import serving

pytestmark = pytest.mark.anyio

LARGE = json.dumps({"items": [{"text": "0.5"}], "padding": "x" * 5_000}).encode()
PIECE_BYTES = 64 * 1024
SMALL_LIMIT = {"max_kept_body_bytes": 1_000}


class Counting:
    """A worker that tells how much of a body has come."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.headers: list[dict[str, str]] = []

    def app(self) -> Starlette:
        async def give(request: Request) -> Response:
            return StreamingResponse(pieces(int(request.query_params["num"])))

        async def count(request: Request) -> Response:
            self.headers.append(dict(request.headers))
            async for chunk in request.stream():
                self.num_bytes += len(chunk)
            return Response(str(self.num_bytes))

        paths = [Route("/v1/models", give), Route("/v1/{rest:path}", count, methods=["POST"])]
        return Starlette(routes=paths)


async def pieces(num: int, piece: bytes = bytes(PIECE_BYTES)) -> AsyncIterator[bytes]:
    for _ in range(num):
        yield piece


async def halves(gate: asyncio.Event, data: bytes) -> AsyncIterator[bytes]:
    yield data[: len(data) // 2]
    await gate.wait()
    yield data[len(data) // 2 :]


@pytest.mark.parametrize("is_sized", [True, False])
async def test_a_large_body_reaches_the_worker_while_it_comes(is_sized):
    worker, gate = Counting(), asyncio.Event()
    async with serving(worker.app()) as url, gateway(worker_url=url, **SMALL_LIMIT) as front:
        headers = {"Content-Length": str(len(LARGE))} if is_sized else {}
        call = asyncio.create_task(
            front.http.post("/v1/encode/toy", content=halves(gate, LARGE), headers=headers)
        )
        await until(lambda: worker.num_bytes == len(LARGE) // 2)
        gate.set()
        assert (await call).text == str(len(LARGE))
    assert worker.headers[0].get("content-length") == (str(len(LARGE)) if is_sized else None)


@pytest.mark.parametrize(
    ("path", "kept", "is_read"),
    [
        ("/v1/encode/toy", 1_000, False),
        ("/v1/encode/toy", 10_000, True),
        ("/v1/embeddings", 1_000, True),
    ],
)
async def test_what_is_small_or_names_its_model_in_its_body_is_read_first(path, kept, is_read):
    """What was read goes on with the length that was counted."""
    async with behind(Choosing, kept=kept) as (worker, http):
        answer = await http.post(path, content=pieces(1, LARGE))
    assert answer.text == str(len(LARGE))
    assert ("content-length" in worker.headers[0]) == is_read


@pytest.mark.parametrize(
    ("principal", "is_read"),
    [
        (Principal("a"), False),
        (Principal("a", limits=CallerLimits(tokens_per_minute=10_000)), True),
        (Principal("a", models=("toy",)), True),
    ],
)
async def test_what_an_account_has_to_know_is_read_first(principal, is_read):
    allowance = Allowance(principal, Rates())
    async with behind(FixedEndpoint, allowance=allowance) as (worker, http):
        answer = await http.post("/v1/encode/toy", content=pieces(1, LARGE))
        sized = await http.post("/v1/encode/toy", content=LARGE)
    assert answer.text == str(len(LARGE))
    assert ("content-length" in worker.headers[0]) == is_read
    assert sized.status_code == 200


class Choosing(FixedEndpoint):
    """One worker, of an endpoint to which it matters what is asked."""

    chooses = True


@asynccontextmanager
async def behind(
    endpoint: Callable[[str], Endpoint], *, kept: int = 1_000, allowance: Allowance | None = None
) -> AsyncIterator[tuple[Counting, httpx2.AsyncClient]]:
    """A proxy alone, before a worker that counts."""
    worker = Counting()
    async with serving(worker.app()) as url:
        limits = BodyLimits(max=100_000, kept=kept)
        proxy = Proxy(endpoint(url), timeout_s=10, limits=limits)
        routes = Starlette(routes=[Route("/{path:path}", proxy.handle, methods=["POST"])])

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await routes({**scope, SCOPE_KEY: allowance}, receive, send)

        async with serving(app) as front, httpx2.AsyncClient(base_url=front) as http:
            yield worker, http
        await proxy.aclose()


async def test_packed_bodies_go_on_unpacked():
    async with gateway(**SMALL_LIMIT) as front:
        body = json.dumps(ITEMS | {"padding": list(range(2_000))}).encode()
        packed = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        answer = await front.http.post("/v1/encode/a", content=gzip.compress(body), headers=packed)
        assert answer.status_code == 200
        assert front.worker.seen[0].body["padding"][-1] == 1_999


async def test_a_body_without_a_length_that_outgrows_the_limit_is_refused_in_its_middle():
    worker, gate = Counting(), asyncio.Event()
    limits = SMALL_LIMIT | {"max_body_bytes": 4_000}
    async with serving(worker.app()) as url, gateway(worker_url=url, **limits) as front:
        call = asyncio.create_task(front.http.post("/v1/encode/toy", content=halves(gate, LARGE)))
        await until(lambda: worker.num_bytes > 0)
        gate.set()
        answer = await call
    assert answer.status_code == 413
    assert "4,000 bytes (max_body_bytes)" in answer.json()["error"]["message"]


@pytest.mark.parametrize(("kept", "status"), [(1_000, 503), (10_000, 200)])
async def test_what_was_not_kept_is_not_sent_again(kept, status):
    async with gateway(max_kept_body_bytes=kept) as front:
        front.worker.script = [fails_with(WorkerLost("gone"))]
        answer = await front.http.post("/v1/encode/toy", content=LARGE)
        assert answer.status_code == status
        if status == 503:
            assert "over 1,000 bytes (max_kept_body_bytes)" in answer.json()["error"]["message"]
            assert answer.headers["x-sie-error-code"] == "WORKER_LOST"
            assert answer.headers["retry-after"]
        assert len(front.worker.seen) == (1 if status == 503 else 2)


async def test_the_workers_work_ends_when_the_caller_hangs_up_after_a_large_body():
    async with gateway(**SMALL_LIMIT) as front:
        front.worker.always = front.worker.hold(asyncio.Event())
        call = asyncio.create_task(front.http.post("/v1/encode/toy", content=LARGE))
        await until(lambda: len(front.worker.seen) == 1)
        call.cancel()
        await until(lambda: front.worker.num_hung_up == 1)


async def test_a_caller_that_leaves_in_the_middle_leaves_nothing_behind():
    worker, gate = Counting(), asyncio.Event()
    async with serving(worker.app()) as url, gateway(worker_url=url, **SMALL_LIMIT) as front:
        call = asyncio.create_task(front.http.post("/v1/encode/toy", content=halves(gate, LARGE)))
        await until(lambda: worker.num_bytes > 0)
        call.cancel()
        answer = await front.http.post("/v1/encode/toy", content=b"{}")
        assert answer.status_code == 200


async def test_little_of_a_large_body_is_in_memory_on_either_way():
    """Caller, gateway and worker together hold less than a quarter of it."""
    worker, num = Counting(), 128
    async with serving(worker.app()) as url, gateway(worker_url=url, **SMALL_LIMIT) as front:
        await front.http.get("/v1/models?num=1")
        tracemalloc.start()
        try:
            sent = await front.http.post("/v1/encode/toy", content=pieces(num))
            async with front.http.stream("GET", f"/v1/models?num={num}") as answer:
                num_received = sum([len(chunk) async for chunk in answer.aiter_raw()])
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert int(sent.text) == num_received == num * PIECE_BYTES
    assert peak_bytes < num * PIECE_BYTES / 4
