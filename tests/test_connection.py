"""Requests sent as they are: to where, with what."""

import pytest

from sie_mcp.connection import Address, Connections
from tests.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("end", ["", "/"])
async def test_a_path_is_joined_to_an_address_however_that_ends(end):
    worker = ScriptedWorker()
    connections = Connections(timeout_s=10, key="a key")
    async with worker.running() as url:
        body, length = b'{"items": []}', ("Content-Length", "13")
        sent = await connections.send(Address(url + end), "POST", "/v1/encode/toy", [length], body)
        await sent.aread()
        assert sent.status_code == 200
        await connections.aclose()
    (seen,) = worker.seen
    assert seen.path == "/v1/encode/toy"
    assert seen.headers["authorization"] == "Bearer a key"
    assert seen.headers["content-length"] == "13"
    assert "user-agent" not in seen.headers
