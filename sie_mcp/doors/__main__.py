"""One door, started by its worker with an order on standard input; ends when that closes.

Imports no torch: it is up in half a second, and takes a fraction of a worker's memory.
"""

import asyncio
import importlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from sie_mcp.config import Config
from sie_mcp.connection import SERVER_KEEP_ALIVE_S
from sie_mcp.doors.app import Door
from sie_mcp.doors.order import Order
from sie_mcp.event_loop import loop_factory
from sie_mcp.http_protocol import HttpProtocol
from sie_mcp.log_lines import start_log
from sie_mcp.web_server import WebServer


def main() -> None:
    """Serve until SIGTERM, or until the worker is gone."""
    order = Order.model_validate_json(sys.stdin.buffer.readline())
    config = order.config()
    start_log(config.log_level)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(order, config))


async def _serve(order: Order, config: Config) -> None:
    door = Door(
        order.socket,
        timeout_s=config.request_timeout_s,
        joins=config.tracing != "on" and not (config.tracing == "auto" and config.wants_traces),
    )
    watch = asyncio.get_running_loop().create_task(_until_orphaned(order))
    async with _gated(door, config) as app:
        server = WebServer(_options(app, config))
        await server.serve(sockets=[socket.socket(fileno=one) for one in order.listeners])
    watch.cancel()
    await door.aclose()


@asynccontextmanager
async def _gated(door: ASGIApp, config: Config) -> AsyncIterator[ASGIApp]:
    """Ask who calls, where the settings say so."""
    if config.auth == "none":
        yield door
        return
    # Its libraries take as long to import as everything else here.
    remote = importlib.import_module("sie_mcp.access.remote")
    access = remote.make_access(config)
    yield remote.behind_gate(door, access)
    await access.aclose()


def _options(app: ASGIApp, config: Config) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        http=HttpProtocol,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=config.graceful_timeout_s,
        timeout_keep_alive=SERVER_KEEP_ALIVE_S,
    )


async def _until_orphaned(order: Order) -> None:
    """End the process when its worker has ended: nobody is left to ask, or to clear away."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()
    shutil.rmtree(Path(order.socket).parent, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
