"""Callers who come at once are let in at once, though uvloop accepts one a turn for a listener."""

import asyncio
import contextlib
import socket
import tempfile
from pathlib import Path

import pytest
import uvicorn

from sie_mcp.event_loop import loop_factory
from sie_mcp.http_protocol import HttpProtocol
from sie_mcp.web_server import NUM_LISTENERS, WebServer

NUM_CALLERS = 4 * NUM_LISTENERS


async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@contextlib.asynccontextmanager
async def running(num_listeners=NUM_LISTENERS, **where):
    config = uvicorn.Config(app, http=HttpProtocol, log_config=None, lifespan="off", **where)
    server = WebServer(config)
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(30):
            while not server.started or len(server.servers) < num_listeners:
                assert not serving.done()
                await asyncio.sleep(0)
        yield server
    finally:
        server.should_exit = True
        await serving


def connected(address, family):
    """Return callers whose connections wait to be let in."""
    callers = [socket.socket(family) for _ in range(NUM_CALLERS)]
    for one in callers:
        one.connect(address)
    return callers


async def let_in(server, callers):
    """Return after how many turns of the loop all are let in."""
    turns = 0
    while len(server.server_state.connections) < len(callers):
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10 * NUM_CALLERS
    return turns


@pytest.mark.parametrize("kind", ["port", "file"])
def test_callers_who_come_at_once_wait_for_few_turns(kind):
    async def scenario():
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "s")
            where = {"port": 0, "host": "127.0.0.1"} if kind == "port" else {"uds": path}
            async with running(**where) as server:
                address = server.servers[0].sockets[0].getsockname() if kind == "port" else path
                family = socket.AF_INET if kind == "port" else socket.AF_UNIX
                callers = connected(address, family)
                # A turn to hear of them, and as many as it takes to let them in.
                turns = await let_in(server, callers)
                for one in callers:
                    one.close()
        return turns

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(scenario()) <= NUM_CALLERS / 2


def test_who_comes_after_the_end_is_refused():
    async def scenario():
        async with running(port=0, host="127.0.0.1") as server:
            assert len(server.servers) == NUM_LISTENERS
            address = server.servers[0].sockets[0].getsockname()
        with socket.socket() as late:
            return late.connect_ex(address)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(scenario()) != 0


def test_asyncios_own_loop_needs_one_listener():
    async def scenario():
        async with running(1, port=0, host="127.0.0.1") as server:
            callers = connected(server.servers[0].sockets[0].getsockname(), socket.AF_INET)
            turns = await let_in(server, callers)
            for one in callers:
                one.close()
            return len(server.servers), turns

    num_servers, turns = asyncio.run(scenario())
    assert num_servers == 1
    assert turns <= NUM_CALLERS / 2
