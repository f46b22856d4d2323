"""`sie-mcp serve`: two gateways behind a round robin, both eras, /v1 handed on, limits."""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream
from mcp import Client

from tests.e2e.conftest import gateway, toy_worker
from tests.toys import toy_vector


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


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_any_gateway_answers_any_request(tmp_path, mode):
    with (
        anyio.fail_after(120),
        toy_worker(tmp_path) as worker,
        gateway(tmp_path, worker) as one,
        gateway(tmp_path, worker) as two,
    ):
        async with round_robin([one, two]) as url:
            for _ in range(3):
                async with Client(f"{url}/mcp", mode=mode) as session:
                    assert len((await session.list_tools()).tools) == 6
                    arguments = {"query": "q", "documents": ["a", "b"], "model": "toy"}
                    result = await session.call_tool("rerank", arguments)
                    assert not result.is_error, result.content[0].text
                    assert json.loads(result.content[0].text) == result.structured_content


@pytest.mark.anyio
async def test_v1_is_handed_on_and_mcp_has_its_limits(tmp_path):
    with anyio.fail_after(90), toy_worker(tmp_path) as worker, gateway(tmp_path, worker) as url:
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            answer = await http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
            assert answer.json()["items"][0]["dense"]["values"] == toy_vector("x").tolist()
            assert (await http.get("/v1/models")).json()["models"][0]["name"] == "toy"
            wrong = await http.post("/v1/encode/toy", json={"items": []})
            assert wrong.status_code == 400
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await http.get(path)).status_code == 200
            assert (await http.get("/mcp")).status_code == 405
            foreign = await http.post("/mcp", json={}, headers={"Host": "evil.example"})
            assert foreign.status_code == 421
        async with Client(f"{url}/mcp") as session:
            refused = await session.call_tool("filter_context", {"query": "q", "path": "README.md"})
            assert refused.is_error
            assert "no access to files" in refused.content[0].text


@pytest.mark.anyio
async def test_without_a_worker_the_answer_is_a_typed_503(tmp_path):
    with anyio.fail_after(60), gateway(tmp_path, "http://127.0.0.1:9") as url:
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            answer = await http.post("/v1/encode/toy", json={"items": [{"text": "x"}]})
            assert answer.status_code == 503
            assert answer.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
            assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.anyio
async def test_hanging_up_stops_the_work(tmp_path):
    """Case T65 over HTTP: the queue of the worker empties when the client goes away."""
    with (
        anyio.fail_after(90),
        toy_worker(tmp_path, "--forward-s", "2") as worker,
        gateway(tmp_path, worker) as url,
    ):
        async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
            texts = [{"text": f"text {n}"} for n in range(1200)]
            with pytest.raises(httpx2.TimeoutException):
                await http.post("/v1/encode/toy", json={"items": texts}, timeout=1.0)
            # One batch of 512 runs; the other sequences must not follow it.
            text = (await http.get(worker + "/metrics")).text
            with anyio.fail_after(20):
                while "sie_queue_tokens 0.0" not in text:
                    text = (await http.get(worker + "/metrics")).text
            assert 'sie_batch_tokens_bucket{le="+Inf"} 3.0' not in text
