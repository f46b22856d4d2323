"""`serve` on a real socket in front of a scripted worker: MCP in both eras, /v1, probes, limits."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx2
import pytest
from mcp import Client
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sie_mcp.config import Config
from sie_mcp.errors import ModelLoading, QueueFull
from sie_mcp.gateway.app import MAX_MCP_BODY_BYTES, build_app
from tests.scripted_worker import ScriptedWorker, answers, fails_with, until
from tests.servers import serving

pytestmark = pytest.mark.anyio
both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])

CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}
ITEMS = {"items": [{"text": "0.5"}]}


@dataclass
class Gateway:
    """A gateway, its worker, and a plain HTTP client of it."""

    url: str
    worker: ScriptedWorker
    http: httpx2.AsyncClient


@asynccontextmanager
async def gateway(**settings: object) -> AsyncIterator[Gateway]:
    worker = ScriptedWorker()
    async with worker.running() as worker_url:
        own = {"worker_url": worker_url, "load_wait_s": 0.2}
        app = build_app(Config(**(own | settings)), files_allowed=False)
        async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=10) as http:
            yield Gateway(url, worker, http)


@pytest.fixture
async def front() -> AsyncIterator[Gateway]:
    async with gateway() as made:
        yield made


# MCP.


@both_eras
async def test_tools_are_listed_and_called(front, mode):
    async with Client(f"{front.url}/mcp", mode=mode) as client:
        assert len((await client.list_tools()).tools) == 6
        result = await client.call_tool("rerank", CALL)
        assert not result.is_error
        assert json.loads(result.content[0].text) == result.structured_content


@both_eras
async def test_progress_of_a_load_arrives_while_it_lasts(front, mode):
    front.worker.script = [fails_with(ModelLoading("loading toy: 40 %"))] * 2
    heard: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with Client(f"{front.url}/mcp", mode=mode) as client:
        result = await client.call_tool("rerank", CALL, progress_callback=progress)
        assert not result.is_error
    assert heard == ["loading toy: 40 % (0 s)"] * 2


@both_eras
async def test_a_client_that_shows_progress_may_wait_longer(mode):
    async def progress(done: float, total: float | None, message: str | None) -> None:
        """Listen."""

    gate = asyncio.Event()
    async with (
        gateway(tool_timeout_s=0.1) as front,
        Client(f"{front.url}/mcp", mode=mode) as client,
        anyio.create_task_group() as group,
    ):
        front.worker.always = front.worker.hold(gate)

        async def call() -> None:
            result = await client.call_tool("rerank", CALL, progress_callback=progress)
            assert not result.is_error

        group.start_soon(call)
        await until(lambda: len(front.worker.seen) == 1)
        # Without progress the same call is given up while that one goes on.
        result = await client.call_tool("rerank", CALL)
        assert result.is_error
        assert "was not done after 0.1 s" in result.content[0].text
        gate.set()


@both_eras
async def test_a_slow_call_blocks_nothing_and_a_cancelled_one_is_dropped(front, mode, caplog):
    """Case T65 over HTTP. In the old era, stateless, only the closed connection tells of a cancel:
    its notification reaches another short-lived session, which cannot know whose call is meant.
    """
    async with Client(f"{front.url}/mcp", mode=mode) as client:
        front.worker.script = [front.worker.hold(asyncio.Event())]
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "rerank", CALL)
            await until(lambda: len(front.worker.seen) == 1)
            with anyio.fail_after(5):
                assert (await client.list_tools()).tools
                assert not (await client.call_tool("rerank", CALL)).is_error
            assert front.worker.num_hung_up == 0
            group.cancel_scope.cancel()
        if mode == "auto":
            await until(lambda: front.worker.num_hung_up == 1)
        assert not (await client.call_tool("rerank", CALL)).is_error
    await until(lambda: front.worker.num_hung_up == 1)
    assert "ERROR" not in caplog.text


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_hanging_up_drops_the_work(front, version):
    """Case T65: an agent that just goes away, in either era."""
    front.worker.always = front.worker.hold(asyncio.Event())
    call = asyncio.create_task(front.http.post("/mcp", **raw_call(version)))
    await until(lambda: len(front.worker.seen) == 1)
    call.cancel()
    await until(lambda: front.worker.num_hung_up == 1)


@both_eras
async def test_files_are_closed_to_remote_callers(front, mode):
    async with Client(f"{front.url}/mcp", mode=mode) as client:
        result = await client.call_tool("rerank", {"query": "q", "path": "pyproject.toml"})
        assert result.is_error
        assert "file" in result.content[0].text
    assert front.worker.seen == []


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_an_idle_stream_is_refused(front, path):
    answer = await front.http.get(path, headers={"Accept": "text/event-stream"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_a_call_that_is_too_large_is_refused(front):
    body = raw_call("2026-07-28", query="x" * MAX_MCP_BODY_BYTES)
    assert (await front.http.post("/mcp", **body)).status_code == 413
    assert front.worker.seen == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}'],
)
async def test_what_is_no_call_is_refused_and_the_next_one_works(front, body):
    headers = raw_call("2025-11-25")["headers"]
    answer = await front.http.post("/mcp", content=body, headers=headers)
    assert 200 <= answer.status_code < 500
    assert '"result":' not in answer.text
    answer = await front.http.post("/mcp", **raw_call("2025-11-25"))
    assert answer.status_code == 200


async def test_half_a_surrogate_in_the_json_is_refused(front):
    call = raw_call("2026-07-28", query="QUERY")
    content = json.dumps(call["json"]).replace("QUERY", "\\ud83d")
    answer = await front.http.post("/mcp", content=content, headers=call["headers"])
    assert answer.status_code < 500
    assert front.worker.seen == []


# Who may call.


@pytest.mark.parametrize("path", ["/mcp", "/v1/encode/toy"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)],
)
async def test_a_web_page_cannot_reach_in(front, path, headers, status):
    answer = await front.http.post(path, json=ITEMS, headers=headers)
    assert answer.status_code == status
    assert front.worker.seen == []


async def test_named_hosts_and_origins_are_let_in():
    async with gateway(allowed_hosts="sie:8080", allowed_origins="https://app.example") as front:
        headers = {"Host": "sie:8080", "Origin": "https://app.example"}
        answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
        assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_answer_whoever_asks(front, path):
    answer = await front.http.get(path, headers={"Host": "10.0.0.7:8080"})
    assert answer.status_code == 200
    assert front.worker.seen == []


async def test_metrics_count_tool_calls(front):
    async with Client(f"{front.url}/mcp") as client:
        await client.call_tool("rerank", CALL)
    page = (await front.http.get("/metrics")).text
    assert 'sie_tool_calls_total{outcome="ok",tool="rerank"}' in page


# /v1.


async def test_a_request_and_its_answer_are_handed_on_as_they_are(front):
    front.worker.script = [answers(b"\x00\xff", 418, x_custom="1", content_type="image/x")]
    answer = await front.http.post(
        "/v1/encode/toy?a=1&b=%20", content=b'{"items": []}', headers={"X-SIE-Load-Wait": "3"}
    )
    assert (answer.status_code, answer.content) == (418, b"\x00\xff")
    assert answer.headers["x-custom"] == "1"
    assert answer.headers["content-type"] == "image/x"
    (seen,) = front.worker.seen
    assert seen.headers["x-sie-load-wait"] == "3"
    assert seen.body == {"items": []}


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("org/name", "org/name"),
        ("/abs/path", "/abs/path"),
        ("a%3Fb%23c", "a?b#c"),
        ("a%252Fb", "a%2Fb"),
        ("%C3%A4", "ä"),
        ("%2E%2E/%2E%2E/readyz", "../../readyz"),
    ],
)
async def test_a_models_name_survives_the_hand_over(front, path, model):
    assert (await front.http.post(f"/v1/encode/{path}", json=ITEMS)).status_code == 200
    assert front.worker.seen[0].model == model


async def test_headers_of_one_connection_stay_there(front):
    headers = {"Connection": "keep-alive, X-Private", "X-Private": "1", "TE": "trailers"}
    await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
    (seen,) = front.worker.seen
    assert not {"x-private", "te"} & set(seen.headers)
    assert seen.headers["host"] != front.url.removeprefix("http://")


async def test_a_workers_error_arrives_with_its_headers(front):
    front.worker.script = [fails_with(QueueFull("the queue is full"), retry_after="7")]
    answer = await front.http.post("/v1/encode/toy", json=ITEMS)
    assert answer.status_code == 503
    assert answer.json()["error"] == {"code": "QUEUE_FULL", "message": "the queue is full"}
    assert answer.headers["x-sie-error-code"] == "QUEUE_FULL"
    assert answer.headers["retry-after"] == "7"


async def test_an_answer_is_streamed(front):
    """The first part arrives while the worker still holds the second."""
    gate = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await gate.wait()
        yield b"second"

    async def stream(_: Request) -> Response:
        return StreamingResponse(parts())

    front.worker.script = [stream]
    async with front.http.stream("POST", "/v1/encode/toy", json=ITEMS) as answer:
        received = answer.aiter_raw()
        assert await anext(received) == b"first"
        gate.set()
        assert await anext(received) == b"second"


async def test_the_workers_work_ends_when_the_caller_hangs_up(front):
    front.worker.always = front.worker.hold(asyncio.Event())
    call = asyncio.create_task(front.http.post("/v1/encode/toy", json=ITEMS))
    await until(lambda: len(front.worker.seen) == 1)
    call.cancel()
    await until(lambda: front.worker.num_hung_up == 1)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_with_the_limit(is_chunked):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 1_000

    async with gateway(max_body_bytes=2_000) as front:
        content = pieces() if is_chunked else b"x" * 3_000
        answer = await front.http.post("/v1/encode/toy", content=content)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "BODY_TOO_LARGE"
        assert "2,000 bytes (max_body_bytes)" in answer.json()["error"]["message"]
        assert front.worker.seen == []


async def test_no_worker_is_a_typed_answer_with_a_time_to_retry():
    async with gateway(worker_url="http://127.0.0.1:9") as front:
        answer = await front.http.post("/v1/encode/toy", json=ITEMS)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "WORKER_UNAVAILABLE"
        assert answer.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_other_methods_are_not_handed_on(front, method):
    assert (await front.http.request(method, "/v1/models")).status_code in (404, 405)
    assert front.worker.seen == []


def raw_call(version: str, query: str = "q") -> dict:
    """Return what `post` needs to call rerank without an MCP client."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "rerank", "arguments": CALL | {"query": query}, "_meta": meta}
    return {
        "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        "headers": {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": version,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "rerank",
        },
    }
