"""The MCP server: the tools, and around every call its deadline, cancellation and error texts.

What a tool raises as a SieError becomes a text that the model can act on; anything unexpected is
masked and logged. Tools stay pure.
"""

import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import CacheHint, MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, TextContent

import sie_mcp
from sie_mcp import metrics
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.errors import DeadlineExceeded, ModelLoading, SieError
from sie_mcp.gateway.arguments import explain_arguments
from sie_mcp.gateway.instructions import instructions_for
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.registry import choose_tools

logger = logging.getLogger(__name__)

# No list changes while the process lives.
LIST_CACHE = CacheHint(ttl_ms=300_000, scope="public")
HANG_UP_POLL_S = 0.25


class SieServer(MCPServer[ToolContext]):
    """MCPServer with our error texts, deadlines and metrics."""

    def __init__(self, context: ToolContext, config: Config) -> None:
        @asynccontextmanager
        async def lifespan(_: MCPServer[ToolContext]) -> AsyncIterator[ToolContext]:
            # Must not wait for anything: it holds up the first answer.
            yield context

        tools = choose_tools(config.tools)
        self._known = {tool.name: tool for tool in tools}
        self._config = config
        super().__init__(
            "sie",
            title="Small models as tools",
            instructions=instructions_for(self._known),
            version=sie_mcp.__version__,
            tools=tools,
            lifespan=lifespan,
            subscriptions=False,
            cache_hints={
                "tools/list": LIST_CACHE,
                "prompts/list": LIST_CACHE,
                "resources/list": LIST_CACHE,
                "resources/templates/list": LIST_CACHE,
                "server/discover": LIST_CACHE,
            },
            log_level="WARNING",
        )

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any] | None = None
    ) -> Any:
        """Run one tool call with everything around it.

        Raises:
            ToolError: with a text for the model.
        """
        label = name if name in self._known else "unknown"
        started_s = time.monotonic()
        outcome = "error"
        try:
            result = await self._call(name, arguments, context)
            failed = isinstance(result, CallToolResult) and result.is_error
            outcome = "error" if failed else "ok"
            return result
        except anyio.get_cancelled_exc_class():
            outcome = "cancelled"
            raise
        finally:
            metrics.TOOL_CALLS.labels(label, outcome).inc()
            metrics.TOOL_SECONDS.labels(label).observe(time.monotonic() - started_s)

    async def _call(
        self, name: str, arguments: dict[str, Any], context: Context[Any] | None
    ) -> Any:
        timeout_s = self._timeout_s(context)
        try:
            with anyio.fail_after(timeout_s):
                result = await _unless_gone(
                    context, lambda: self._explained(name, arguments, context)
                )
        except TimeoutError as error:
            raise ToolError(
                f"{name} was not done after {timeout_s:g} s. Send fewer or shorter items at once."
            ) from error
        if result is None:
            raise ToolError(f"{name} was given up: the client went away.")
        return result

    async def _explained(
        self, name: str, arguments: dict[str, Any], context: Context[Any] | None
    ) -> Any:
        if name not in self._known:
            raise ToolError(f"There is no tool {name!r}; there are: {', '.join(self._known)}.")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ModelLoading):
                return loading_result(cause)
            if isinstance(cause, SieError):
                raise ToolError(text_for_model(cause)) from cause
            if isinstance(error, UnexpectedToolError):
                raise UnexpectedToolError(
                    f"{name} failed on the server, not because of your arguments. "
                    "Retry once; if it fails again, go on without it."
                ) from cause
            explained = explain_arguments(self._known[name], cause)
            if explained is not None:
                raise ToolError(explained) from cause
            raise

    def _timeout_s(self, context: Context[Any] | None) -> float:
        """Clients that show progress wait long; the others give up within a minute."""
        meta = context.request_context.meta if context is not None else None
        token = meta.get("progress_token") if meta else None
        if token is not None:
            return self._config.tool_timeout_with_progress_s
        return self._config.tool_timeout_s


def text_for_model(error: SieError) -> str:
    """Say what went wrong and whether calling again makes sense."""
    text = str(error)
    if error.retryable and not isinstance(error, DeadlineExceeded):
        text += f" (nothing is wrong with your call: repeat it in {error.retry_after_s or 1:.0f} s)"
    return text


def loading_result(error: ModelLoading) -> CallToolResult:
    """Answer that a model is still loading: an error for clients, an instruction for the model."""
    retry_after_s = max(round(error.retry_after_s or 2.0), 1)
    body = {
        "status": "loading",
        "retry_after_s": retry_after_s,
        "message": f"{error}. Nothing is wrong: repeat the same call in {retry_after_s} s.",
    }
    text = json.dumps(body, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=body, is_error=True)


async def _unless_gone(context: Context[Any] | None, work: Callable[[], Awaitable[Any]]) -> Any:
    """Await the work; None when the HTTP client hung up, of which not every SDK mode tells us."""
    request = context.request_context.request if context is not None else None
    if request is None:
        return await work()
    result: Any = None
    failure: ToolError | MCPError | None = None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while not await request.is_disconnected():
                await anyio.sleep(HANG_UP_POLL_S)
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            result = await work()
        except (ToolError, MCPError) as error:
            failure = error  # Raised inside the group it would come out wrapped.
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


def build_server(client: EngineClient, config: Config, *, files_allowed: bool) -> SieServer:
    """Join client, settings and tools into a server."""
    return SieServer(ToolContext(client, config, files_allowed), config)
