"""`serve` on a real socket in front of a scripted worker: MCP in both eras, callers, probes."""

import asyncio
import json
import re

import anyio
import pytest
from mcp import Client

from sie_mcp.config import Config
from sie_mcp.errors import ModelLoading
from tests.gateway.front import CALL, ITEMS, gateway, raw_call
from tests.scripted_worker import fails_with, until

pytestmark = pytest.mark.anyio
both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])


# MCP.


@both_eras
async def test_tools_are_listed_and_called(front, mode):
    async with Client(f"{front.url}/mcp", mode=mode) as client:
        assert len((await client.list_tools()).tools) == 7
        result = await client.call_tool("rerank", CALL)
        assert not result.is_error
        assert json.loads(result.content[0].text) == result.structured_content


@both_eras
async def test_progress_of_a_load_arrives_while_it_lasts(mode):
    heard: list[str] = []
    gate = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        if len(heard) == 2:
            gate.set()

    # Long enough for a busy machine; the worker has loaded once both were heard.
    async with gateway(load_wait_s=60) as front, Client(f"{front.url}/mcp", mode=mode) as client:
        loading = fails_with(ModelLoading("loading toy: 40 %"))
        front.worker.script = [loading, loading, front.worker.hold(gate)]
        result = await client.call_tool("rerank", CALL, progress_callback=progress)
        assert not result.is_error
    # What was said last is said again where the machine is slow.
    assert len(heard) >= 2
    assert all(re.fullmatch(r"loading toy: 40 % \(\d+ s\)", message) for message in heard)


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
    """Case T65 over HTTP. In the old era the notice comes apart from the call, under the name that
    the client was given.
    """
    async with Client(f"{front.url}/mcp", mode=mode) as client:
        front.worker.script = [front.worker.hold(asyncio.Event())]
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "rerank", CALL)
            await until(lambda: len(front.worker.seen) == 1)
            with anyio.fail_after(30):
                assert (await client.list_tools()).tools
                assert not (await client.call_tool("rerank", CALL)).is_error
            assert front.worker.num_hung_up == 0
            group.cancel_scope.cancel()
        await until(lambda: front.worker.num_hung_up == 1)
        assert not (await client.call_tool("rerank", CALL)).is_error
    assert front.worker.num_hung_up == 1
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
    body = raw_call("2026-07-28", query="x" * Config().max_mcp_body_bytes)
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


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8080", "http://localhost:8080", 200),
        ("localhost:8080", "https://localhost:8080", 200),
        ("localhost:8080", "http://localhost:3000", 403),
        ("localhost:8080", "http://localhost:8080.evil.example", 403),
        ("evil.example", "http://evil.example", 421),
    ],
)
async def test_a_page_of_the_gateways_own_host_is_let_in_and_no_other(front, host, origin, status):
    headers = {"Host": host, "Origin": origin}
    answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
    assert answer.status_code == status
    assert len(front.worker.seen) == (status == 200)


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


async def test_each_caller_over_http_has_a_part_of_its_own_at_the_worker(front):
    call = raw_call("2026-07-28")
    for name in ("one", "one", "two"):
        headers = call["headers"] | {"X-SIE-Client": name * 100}
        answer = await front.http.post("/mcp", json=call["json"], headers=headers)
        assert answer.status_code == 200
    await front.http.post("/mcp", json=call["json"], headers=call["headers"])
    first, again, other, address = (seen.headers["x-sie-client"] for seen in front.worker.seen)
    assert first == again
    assert len({first, other, address}) == 3
    assert len(first) <= 64


async def test_clients_of_the_old_era_get_a_name_of_their_own_and_others_none(front):
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    accepts = {"Accept": "application/json, text/event-stream"}
    answers = [await front.http.post("/mcp", json=body, headers=accepts) for _ in range(2)]
    names = [answer.headers["mcp-session-id"] for answer in answers]
    assert names[0] != names[1] and len(names[0]) == 32
    later = accepts | {"Mcp-Session-Id": names[0], "MCP-Protocol-Version": "2025-11-25"}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = await front.http.post("/mcp", json=listing, headers=later)
    assert answer.status_code == 200 and "mcp-session-id" not in answer.headers
    answer = await front.http.post("/mcp", **raw_call("2026-07-28"))
    assert answer.status_code == 200 and "mcp-session-id" not in answer.headers
    # There is no session that could be ended.
    assert (await front.http.delete("/mcp", headers=later)).status_code == 405
