"""A body that does not come: its sender is answered or cut off, and holds nothing for long."""

import anyio
import pytest

from tests.gateway.front import gateway, raw_call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/mcp", "/v1/encode/toy"])
async def test_a_body_that_does_not_come_is_waited_for_within_a_bound(path, monkeypatch, caplog):
    monkeypatch.setattr("sie_mcp.access.gate.BODY_TIMEOUT_S", 0.05)
    headers = raw_call("2026-07-28")["headers"] | {"Host": "localhost:1", "Content-Length": "99"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with gateway() as front:
        port = int(front.url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(f"POST {path} HTTP/1.1\r\n{lines}\r\n{{".encode())
            with anyio.fail_after(30):
                answer = await stream.receive()
        assert answer.startswith(b"HTTP/1.1 408")
        assert front.worker.seen == []
    assert "Exception in ASGI application" not in caplog.text
