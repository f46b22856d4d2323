"""The protocol's Tasks extension: a call that takes long is answered with a task to ask after.

The server decides: a client that declares the extension waits `task_after_s` for the answer, and
then gets a task in its place. No tool knows of it.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.session import ServerSession
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    RequestParams,
)

from sie_mcp.errors import StoreUnavailable
from sie_mcp.gateway.hang_up import unless_gone
from sie_mcp.gateway.jobs import Job, Jobs
from sie_mcp.gateway.task_records import TaskBook, TaskRecord
from sie_mcp.tools.context import ToolContext, owner_name

IDENTIFIER = "io.modelcontextprotocol/tasks"
VERSIONS = frozenset({"2026-07-28"})
NAME_HEADER = "Mcp-Name"

RequestContext = ServerRequestContext[ToolContext, Any]


class TaskParams(RequestParams):
    """Which task is meant."""

    task_id: str


class UpdateParams(TaskParams):
    """Answers to questions of a task; ours ask none."""

    input_responses: dict[str, Any]


class Tasks(Extension):
    """Offers the extension.

    Args:
        after_s: How long a call is waited for before it becomes a task.
    """

    identifier = IDENTIFIER

    def __init__(self, book: TaskBook, jobs: Jobs, *, after_s: float) -> None:
        self._book = book
        self._jobs = jobs
        self._after_s = after_s

    def methods(self) -> Sequence[MethodBinding]:
        """Return the three methods, of the one revision that has them."""
        return [
            MethodBinding("tasks/get", TaskParams, self._get, VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, VERSIONS),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        """Run a call; answer with a task if it takes long and the client knows what that is."""
        background = ctx.lifespan_context.background
        if background is None or not _declares(ctx) or not self._jobs.have_room:
            return await call_next(ctx)
        job = Job(owner_name(ctx.request))
        background.start_soon(self._jobs.run, job, partial(call_next, _detached(ctx, job)))
        try:
            if not await unless_gone(ctx.request, partial(_wait, job, self._after_s)):
                raise MCPError(code=INTERNAL_ERROR, message="the client went away")
            if not job.done.is_set():
                record = await self._try_to_make(job, ctx)
                if record is not None:
                    return {"resultType": "task", **record.wire()}
            return cast(HandlerResult, job.answer())
        finally:
            if job.record is None:
                job.scope.cancel()

    async def _try_to_make(self, job: Job, ctx: RequestContext) -> TaskRecord | None:
        """Return the task, or None once the job has ended instead."""
        background = ctx.lifespan_context.background
        assert background is not None
        try:
            return await self._jobs.make_task(job, background)
        except StoreUnavailable:
            # What cannot be asked after has to be waited for.
            await unless_gone(ctx.request, job.done.wait)
            return None

    async def _get(self, ctx: RequestContext, params: TaskParams) -> HandlerResult:
        return (await self._find(ctx, params)).wire()

    async def _update(self, ctx: RequestContext, params: UpdateParams) -> HandlerResult:
        # Answers that no task has asked for are to be ignored, and ours never ask.
        await self._find(ctx, params)
        return {}

    async def _cancel(self, ctx: RequestContext, params: TaskParams) -> HandlerResult:
        if (await self._find(ctx, params)).status == "working":
            await _reachable(self._jobs.cancel(params.task_id))
        return {}

    async def _find(self, ctx: RequestContext, params: TaskParams) -> TaskRecord:
        require_client_extension(ctx, IDENTIFIER)
        named = ctx.request.headers.get(NAME_HEADER) if ctx.request is not None else None
        if named is not None and named != params.task_id:
            raise MCPError(
                code=HEADER_MISMATCH, message=f"{NAME_HEADER} names another task than the body"
            )
        record: TaskRecord | None = await _reachable(
            self._book.read(params.task_id, owner_name(ctx.request))
        )
        if record is None:
            raise MCPError(
                code=INVALID_PARAMS,
                message="there is no such task here, or not any more: call the tool again",
            )
        return record


class TaskSession:
    """The session that a job sees: what it reports is kept, and sent on while somebody waits.

    Whatever else a session can do is that of the request.
    """

    def __init__(self, session: ServerSession, job: Job) -> None:
        self._session = session
        self._job = job

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Note how far the job is."""
        self._job.message = message
        if self._job.record is None:
            await self._session.report_progress(progress, total, message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class KeptRequest:
    """What a job may know of an HTTP request that can be over: who sent it, and its headers.

    Who is admitted stands in the scope.
    """

    def __init__(self, request: Any) -> None:
        self.scope: Mapping[str, Any] = request.scope
        self.client = request.client
        self.headers: Mapping[str, str] = request.headers

    async def is_disconnected(self) -> bool:
        """Whoever waits for the job watches the connection."""
        return False


def _declares(ctx: RequestContext) -> bool:
    capabilities = ctx.session.client_capabilities
    declared = capabilities.extensions if capabilities else None
    return ctx.protocol_version in VERSIONS and bool(declared) and IDENTIFIER in (declared or {})


def _detached(ctx: RequestContext, job: Job) -> RequestContext:
    request = KeptRequest(ctx.request) if ctx.request is not None else None
    session = cast(ServerSession, TaskSession(ctx.session, job))
    return replace(ctx, session=session, request=request)


async def _wait(job: Job, after_s: float) -> bool:
    with anyio.move_on_after(after_s):
        await job.done.wait()
    return True


async def _reachable(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except StoreUnavailable as error:
        raise MCPError(code=INTERNAL_ERROR, message=str(error)) from error
