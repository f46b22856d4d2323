"""What tools are given: the client, the settings, and whether files may be touched."""

from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context

from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Everything a tool depends on."""

    client: EngineClient
    config: Config
    files_allowed: bool = True


def tool_context(ctx: Context[Any, Any]) -> ToolContext:
    """Return what the server gave to its tools."""
    context: ToolContext = ctx.request_context.lifespan_context
    return context


def reporter(ctx: Context[Any, Any]) -> Progress:
    """Return a progress callback for the client; the protocol wants each value above the last."""
    last = 0.0

    async def report(done: int, total: int, message: str) -> None:
        nonlocal last
        last = max(float(done), last + 0.001)
        await ctx.report_progress(last, float(max(total, done)), message)

    return report
