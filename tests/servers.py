"""Run an ASGI app on a real socket, on the loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def serving(app: ASGIApp, uds: Path | None = None) -> AsyncIterator[str]:
    """Serve until the block ends; yield the URL. With `uds` on a Unix socket."""
    listener = socket.socket(socket.AF_INET if uds is None else socket.AF_UNIX)
    listener.bind(("127.0.0.1", 0) if uds is None else str(uds))
    options = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(options)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    with anyio.fail_after(10):
        while not server.started:
            await anyio.sleep(0.005)
    try:
        yield "http://worker" if uds else f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        with anyio.CancelScope(shield=True):
            await serving
        listener.close()
