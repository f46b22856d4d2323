"""Run an ASGI app on a real socket, on the loop of the test."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import uvicorn
from starlette.types import ASGIApp

from sie_mcp.http_protocol import HttpProtocol


@asynccontextmanager
async def serving(
    app: ASGIApp, uds: Path | None = None, *, keep_alive_s: float = 5
) -> AsyncIterator[str]:
    """Serve until the block ends; yield the URL. With `uds` on a Unix socket."""
    if uds is None:
        # With the protocol named asyncio sends at once; without, answers come 40 ms late.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(uds))
    options = uvicorn.Config(
        app,
        http=HttpProtocol,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=keep_alive_s,
    )
    options.load()
    server = uvicorn.Server(options)
    server.lifespan = options.lifespan_class(options)
    # Without its loop, which watches for signals and looks for the end every tenth of a second.
    await server.startup(sockets=[listener])
    try:
        yield "http://worker" if uds else f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with anyio.CancelScope(shield=True):
            await _end(server)
        listener.close()


async def _end(server: uvicorn.Server) -> None:
    """What the server's own shutdown does, without the tenth of a second that it sleeps."""
    for listening in server.servers:
        listening.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    with anyio.move_on_after(1):
        while server.server_state.connections or server.server_state.tasks:
            await anyio.sleep(0.002)
    for task in server.server_state.tasks:
        task.cancel()
    await server.lifespan.shutdown()
