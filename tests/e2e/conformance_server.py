"""`python -m tests.e2e.conformance_server PORT`: our server with the tools that the protocol's
conformance suite calls for the Tasks extension. A call becomes a task after half a second.
"""

import contextlib
import sys
from collections.abc import AsyncIterator

import anyio
import uvicorn
from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import INTERNAL_ERROR
from starlette.applications import Starlette
from starlette.routing import Mount

from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import FixedEndpoint
from sie_mcp.gateway.app import build_mcp_app
from sie_mcp.gateway.server import build_server

TASK_AFTER_S = 0.5


async def greet(name: str) -> str:
    """Greet."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Take a while."""
    await anyio.sleep(seconds)
    return f"{label} took {seconds:g} s"


async def failing_job() -> str:
    """Fail after a second, as a tool."""
    await anyio.sleep(1)
    raise ToolError("it always fails")


async def protocol_error_job() -> str:
    """Fail after a second, as a request."""
    await anyio.sleep(1)
    raise MCPError(code=INTERNAL_ERROR, message="out of order")


def build_app() -> Starlette:
    """Join our server, the suite's tools, and a worker that there is not."""
    config = Config(task_after_s=TASK_AFTER_S)
    client = EngineClient(FixedEndpoint("http://127.0.0.1:9"))
    tools = [
        Tool.from_function(one) for one in (greet, slow_compute, failing_job, protocol_error_job)
    ]
    server = build_server(client, config, files_allowed=False, more_tools=tools)
    app = build_mcp_app(server, config)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            yield

    return Starlette(routes=[Mount("/", app=app)], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(build_app(), port=int(sys.argv[1]), log_level="info")
