"""The MCP server: the tools, and around every call its deadline, cancellation and error texts.

What a tool raises as a SieError becomes a text that the model can act on; anything unexpected is
masked and logged. Tools stay pure.
"""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.context import ServerMiddleware
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.tools import Tool
from mcp.types import INTERNAL_ERROR, CallToolResult

import sie_mcp
from sie_mcp import metrics, tracing
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.errors import (
    InvalidInput,
    ModelLoading,
    ModelNotFound,
    NotAllowed,
    RateLimited,
    SieError,
)
from sie_mcp.gateway.admission import admitted
from sie_mcp.gateway.answer_counts import count_answer
from sie_mcp.gateway.arguments import explain_arguments
from sie_mcp.gateway.cache_hints import LISTS, hint_reads
from sie_mcp.gateway.cancelled_calls import CancelledCalls
from sie_mcp.gateway.completions import add_completions
from sie_mcp.gateway.error_texts import loading_result, text_for_model
from sie_mcp.gateway.hang_up import unless_gone
from sie_mcp.gateway.instructions import instructions_for
from sie_mcp.gateway.jobs import Jobs
from sie_mcp.gateway.own_tools import list_own_tools
from sie_mcp.gateway.paced_progress import pace_progress
from sie_mcp.gateway.prompts import add_prompts, check_prompt
from sie_mcp.gateway.resources import add_resources
from sie_mcp.gateway.task_notices import TaskNotices
from sie_mcp.gateway.task_records import TaskBook
from sie_mcp.gateway.tasks import Tasks, TaskSession
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.kept_results import KeptResults
from sie_mcp.tools.registry import choose_tools
from sie_mcp.tools.schema import routed_by_model
from sie_mcp.tools.stores import LocalStore, Store, open_store
from sie_mcp.usage import measured

logger = logging.getLogger(__name__)

# As long as a path in an argument may be.
MAX_URI_CHARS = 4_096


class SieServer(MCPServer[ToolContext]):
    """MCPServer with our error texts, deadlines and metrics."""

    def __init__(
        self,
        context: ToolContext,
        config: Config,
        tools: Sequence[Tool],
        extensions: Sequence[Extension] = (),
        store: Store | None = None,
        middleware: Sequence[ServerMiddleware[ToolContext]] = (),
    ) -> None:
        @asynccontextmanager
        async def lifespan(_: MCPServer[ToolContext]) -> AsyncIterator[ToolContext]:
            # Must not wait for anything: it holds up the first answer.
            async with anyio.create_task_group() as background:
                yield replace(context, background=background)
                background.cancel_scope.cancel()
            if store is not None:
                await store.aclose()

        self._known = {tool.name: tool for tool in tools}
        self._config = config
        super().__init__(
            "sie",
            title="Small models as tools",
            instructions=instructions_for(self._known),
            version=sie_mcp.__version__,
            tools=list(tools),
            extensions=extensions,
            lifespan=lifespan,
            subscriptions=False,
            middleware=[
                CancelledCalls(store or LocalStore()),
                pace_progress,
                hint_reads,
                list_own_tools,
                *middleware,
            ],
            cache_hints=LISTS,
            log_level="WARNING",
        )

    @property
    def tool_names(self) -> list[str]:
        """The tools that are offered, in their order."""
        return list(self._known)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any] | None = None
    ) -> Any:
        """Run one tool call with everything around it.

        Raises:
            ToolError: with a text for the model.
        """
        label = name if name in self._known else "other"
        started_s = time.monotonic()
        outcome = "error"
        try:
            with measured() as usage:
                result = await self._call(name, arguments, context)
            failed = isinstance(result, CallToolResult) and result.is_error
            outcome = "error" if failed else "ok"
            count_answer(label, result, usage)
            return result
        except anyio.get_cancelled_exc_class():
            outcome = "cancelled"
            raise
        finally:
            metrics.TOOL_CALLS.labels(label, outcome).inc()
            seconds = time.monotonic() - started_s
            metrics.TOOL_SECONDS.labels(label).observe(seconds)
            tracing.annotate(tool=label, outcome=outcome)
            logger.debug("tool call tool=%s outcome=%s seconds=%.3f", label, outcome, seconds)

    async def read_resource(self, uri: Any, context: Context[Any] | None = None) -> Any:
        """Read a resource within a tool's deadline.

        Raises:
            ResourceError: with a text for the reader; ResourceNotFoundError if there is none.
        """
        if len(str(uri)) > MAX_URI_CHARS:
            raise ResourceNotFoundError(f"no resource has a URI over {MAX_URI_CHARS:,} characters")
        try:
            with anyio.fail_after(self._config.tool_timeout_s):
                async with admitted(context):
                    return await super().read_resource(uri, context)
        except (NotAllowed, RateLimited) as error:
            raise ResourceError(text_for_model(error)) from error
        except TimeoutError as error:
            raise ResourceError(f"{uri} could not be read in time; try again") from error
        except UnexpectedResourceError as error:
            cause = error.__cause__
            if isinstance(cause, ModelNotFound | InvalidInput):
                raise ResourceNotFoundError(str(cause)) from cause
            if isinstance(cause, SieError):
                raise ResourceError(text_for_model(cause)) from cause
            raise

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[Any] | None = None,
    ) -> Any:
        """Fill in a prompt.

        Raises:
            MCPError: no such prompt, or an argument that it lacks or does not know.
        """
        filled = check_prompt(await self.list_prompts(), name, arguments or {})
        try:
            with anyio.fail_after(self._config.tool_timeout_s):
                return await super().get_prompt(name, filled, context)
        except TimeoutError as error:
            raise MCPError(
                code=INTERNAL_ERROR, message=f"{name} could not be filled in in time; try again"
            ) from error

    async def _call(
        self, name: str, arguments: dict[str, Any], context: Context[Any] | None
    ) -> Any:
        timeout_s, setting = self._timeout(context)
        request = context.request_context.request if context is not None else None
        try:
            with anyio.fail_after(timeout_s):
                result = await unless_gone(
                    request, lambda: self._explained(name, arguments, context)
                )
        except TimeoutError as error:
            raise ToolError(
                f"{name} was not done after {timeout_s:g} s. Send fewer or shorter items at once, "
                f"or have the server started with a longer {setting}."
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
            async with admitted(context, name):
                return await super().call_tool(name, arguments, context)
        except (NotAllowed, RateLimited) as error:
            raise ToolError(text_for_model(error)) from error
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

    def _timeout(self, context: Context[Any] | None) -> tuple[float, str]:
        """Return the deadline and its setting.

        Clients that show progress wait long; the others give up within a minute.
        """
        if context is not None and isinstance(context.request_context.session, TaskSession):
            return self._config.task_timeout_s, "SIE_MCP_TASK_TIMEOUT_S"
        meta = context.request_context.meta if context is not None else None
        token = meta.get("progress_token") if meta else None
        if token is not None:
            return (
                self._config.tool_timeout_with_progress_s,
                "SIE_MCP_TOOL_TIMEOUT_WITH_PROGRESS_S",
            )
        return self._config.tool_timeout_s, "SIE_MCP_TOOL_TIMEOUT_S"


def build_server(
    client: EngineClient, config: Config, *, files_allowed: bool, more_tools: Sequence[Tool] = ()
) -> SieServer:
    """Join client, settings and tools into a server, with what stands around the tools.

    Args:
        more_tools: Offered after those that the settings choose.

    Raises:
        SettingError: a tool that there is not, or a store that cannot be used.
    """
    store = open_store(config.results_uri)
    results = KeptResults(
        store,
        ttl_s=config.result_ttl_s,
        max_results=config.max_kept_results,
        max_bytes=config.max_kept_bytes,
    )
    context = ToolContext(client, config, files_allowed, results)
    book = TaskBook(store, ttl_s=config.task_ttl_s)
    jobs = Jobs(book, max_tasks=config.max_tasks, ttl_s=config.task_ttl_s)
    tasks = Tasks(book, jobs, after_s=config.task_after_s)
    tools = [*choose_tools(config.tools), *more_tools]
    if config.route_by_model:
        tools = [routed_by_model(tool) for tool in tools]
    extensions, middleware = ([tasks], [TaskNotices(book)]) if config.max_tasks else ([], [])
    server = SieServer(context, config, tools, extensions, store, middleware)
    add_resources(server, context)
    add_prompts(server, server.tool_names)
    add_completions(server, context)
    return server
