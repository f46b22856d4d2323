"""MCP over stdio, for both protocol eras on one pipe.

The SDK fixes a pipe's era by its first request: a client that asks `server/discover` first and then
falls back to `initialize` would be refused. Discovery is answered here, before the SDK sees it.
"""

import logging
import os
import signal
from typing import Any, TextIO

import anyio
import pydantic
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import DiscoverResult, JSONRPCRequest, JSONRPCResponse

from sie_mcp.config import Config
from sie_mcp.gateway.endpoint import choose_endpoint, kept_up, make_client
from sie_mcp.gateway.server import build_server
from sie_mcp.gateway.unreadable import answer_unreadable
from sie_mcp.gateway.vectors.cache import open_cache

logger = logging.getLogger(__name__)

MODERN = "2026-07-28"


def run(config: Config, stdout: TextIO) -> None:
    """Serve the tools until stdin ends. Nothing but the protocol is written to `stdout`."""
    # An interrupt ends the process at once: the thread that reads stdin could not be woken, and
    # the worker hears of the end through its connections.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        anyio.run(_run, config, stdout)
    except* BrokenPipeError:
        logger.info("the client stopped reading")
        # What could not be written must not be tried again when the file is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())


async def _run(config: Config, stdout: TextIO) -> None:
    endpoint = choose_endpoint(config)
    vectors = open_cache(config)
    client = make_client(endpoint, config, vectors=vectors)
    async with kept_up(endpoint):
        await serve_stdio(build_server(client, config, files_allowed=True), stdout)
    await client.aclose()
    if vectors is not None:
        await vectors.aclose()


async def serve_stdio(server: MCPServer[Any], stdout: TextIO) -> None:
    """Serve until stdin ends."""
    low = server._lowlevel_server  # The SDK's own stdio runner uses the same object.
    async with stdio_server(stdout=anyio.wrap_file(stdout)) as (reader, writer):
        inner: MemoryObjectSendStream[Any]
        outer: MemoryObjectReceiveStream[Any]
        inner, outer = anyio.create_memory_object_stream[Any](0)

        async def pump() -> None:
            is_open = False
            async with inner:
                async for item in reader:
                    if isinstance(item, pydantic.ValidationError):
                        answer = answer_unreadable(item)
                        if answer is not None:
                            await writer.send(SessionMessage(answer))
                            continue
                    message = item.message if isinstance(item, SessionMessage) else None
                    if isinstance(message, JSONRPCRequest):
                        if not is_open and message.method == "server/discover":
                            await writer.send(SessionMessage(_discovered(low, message)))
                            continue
                        is_open = True
                    await inner.send(item)

        async with anyio.create_task_group() as group:
            group.start_soon(pump)
            await low.run(outer, writer, low.create_initialization_options())
            group.cancel_scope.cancel()


def _discovered(low: Any, request: JSONRPCRequest) -> JSONRPCResponse:
    """Build the answer that the SDK itself would give."""
    hint = low.cache_hints.get("server/discover")
    result = DiscoverResult(
        supported_versions=[MODERN],
        instructions=low.instructions,
        capabilities=low.get_capabilities(protocol_version=MODERN),
        ttl_ms=hint.ttl_ms if hint else 0,
        cache_scope=hint.scope if hint else "private",
    )
    body = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    body["_meta"] = {"io.modelcontextprotocol/serverInfo": low.server_info_stamp}
    return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=body)
