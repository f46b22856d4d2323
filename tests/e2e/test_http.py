"""`sie-mcp serve` as a process: two behind a round robin, both eras, hang-ups, its end."""

import asyncio
import contextlib
import itertools
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream
from mcp import Client

from tests.e2e.conftest import gateway
from tests.e2e.toys_in_process import NUM_DOCUMENTS
from tests.e2e.toys_in_process import toys as toys_here
from tests.scripted_worker import ScriptedWorker, until
from tests.toys import toy_vector

pytestmark = pytest.mark.anyio

CALL = {"query": "q", "documents": ["a", "b"], "model": "toy"}


@asynccontextmanager
async def round_robin(urls: list[str]) -> AsyncIterator[str]:
    """Send each connection to the next gateway: a load balancer without stickiness."""
    turns = itertools.cycle([urlsplit(url) for url in urls])

    async def copy(source: ByteStream, sink: ByteStream) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for data in source:
                await sink.send(data)
            await sink.send_eof()

    async def serve(client: ByteStream) -> None:
        target = next(turns)
        async with (
            client,
            await anyio.connect_tcp(target.hostname, target.port) as server,
            anyio.create_task_group() as group,
        ):
            group.start_soon(copy, client, server)
            group.start_soon(copy, server, client)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


@pytest.fixture(scope="module")
def two_gateways(toys, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    with gateway(folder, toys) as (one, _), gateway(folder, toys) as (two, _):
        yield [one, two]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_any_gateway_answers_any_request(two_gateways, mode):
    with anyio.fail_after(60):
        async with round_robin(two_gateways) as url:
            for _ in range(3):
                async with Client(f"{url}/mcp", mode=mode) as session:
                    assert len((await session.list_tools()).tools) == 7
                    result = await session.call_tool("rerank", CALL)
                    assert not result.is_error, result.content[0].text
                    assert json.loads(result.content[0].text) == result.structured_content
    for gateway_url in two_gateways:
        page = httpx2.get(f"{gateway_url}/metrics").text
        assert 'sie_tool_calls_total{outcome="ok",tool="rerank"}' in page


async def test_v1_of_the_worker_is_the_gateways_too(two_gateways):
    async with httpx2.AsyncClient(base_url=two_gateways[0], timeout=30) as http:
        answer = await http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
        assert answer.json()["items"][0]["dense"]["values"] == toy_vector("x").tolist()
        listed = (await http.get("/v1/models")).json()
        assert "toy" in [card["name"] for card in listed["models"]]
        wrong = await http.post("/v1/encode/toy", json={"items": []})
        assert wrong.status_code == 400
        assert wrong.headers["x-sie-error-code"] == "INVALID_INPUT"


@pytest.mark.parametrize(
    "body",
    [
        {"items": []},
        {"items": [{"text": ""}]},
        {"items": [{"text": "ok"}, {"text": " "}]},
        {"items": [{"text": "x"}], "params": {"output_types": []}},
        {"items": [{"text": "x"}], "topk": 3},
        {"items": '[{"text": "x"}]'},
        {"items": [{"text": "x" * 2_000_001}]},
        {"items": [{"text": "x"}] * 4_097},
        {"items": None},
        {},
        [],
    ],
    ids=range(11),
)
async def test_a_bad_body_is_a_400_that_says_what_would_work(two_gateways, body):
    async with httpx2.AsyncClient(base_url=two_gateways[0], timeout=30) as http:
        answer = await http.post("/v1/encode/toy", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["message"]
        good = await http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
        assert good.status_code == 200


async def test_half_a_surrogate_is_a_400(two_gateways):
    async with httpx2.AsyncClient(base_url=two_gateways[0], timeout=30) as http:
        answer = await http.post("/v1/encode/toy", content=rb'{"items": [{"text": "\ud83d"}]}')
        assert answer.status_code == 400


async def test_hanging_up_empties_the_workers_queue(folder):
    """Case T65 over HTTP: of many batches only the one that runs is run, and one more."""
    texts = [{"text": f"text {n}"} for n in range(NUM_DOCUMENTS)]
    async with toys_here(folder / "cache") as worker:
        with gateway(folder, worker.url) as (url, _):
            async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
                before = worker.num_batches
                call = asyncio.create_task(http.post("/v1/encode/toy", json={"items": texts}))
                await worker.until_queued()
                call.cancel()
                await worker.until_dropped()
                worker.gate.set()
                one = await http.post("/v1/encode/toy", json={"items": texts[:1]})
                assert one.status_code == 200
        assert worker.num_batches - before <= 2 + 1


async def test_the_end_comes_after_the_calls_in_flight(folder):
    """SIGTERM: a call that runs is finished and answered, then the process ends."""
    worker, gate = ScriptedWorker(), asyncio.Event()
    worker.script = [worker.hold(gate)]
    async with worker.running() as worker_url:
        with gateway(folder, worker_url) as (url, process):
            async with (
                Client(f"{url}/mcp") as session,
                anyio.create_task_group() as group,
            ):
                # Else the client would ask for it to check the answer.
                await session.list_tools()

                async def call() -> None:
                    result = await session.call_tool("rerank", CALL)
                    assert not result.is_error

                group.start_soon(call)
                await until(lambda: len(worker.seen) == 1)
                process.send_signal(signal.SIGTERM)
                await until_refused(url)
                assert process.poll() is None
                gate.set()
            assert process.wait(20) in (0, -signal.SIGTERM)


async def until_refused(url: str) -> None:
    """Wait until a server takes no new connections.

    One that waited in the listening socket's queue as it closed is reset.
    """
    with anyio.fail_after(20):
        while True:
            async with httpx2.AsyncClient() as http:
                try:
                    await http.get(f"{url}/healthz")
                except httpx2.ConnectError:
                    return
                except (httpx2.ReadError, httpx2.RemoteProtocolError):
                    continue
            await anyio.sleep(0.01)
