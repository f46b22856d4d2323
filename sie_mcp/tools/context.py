"""What every tool is given: the client of the engine, the settings, and which folders are open."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio.abc import TaskGroup
from mcp.server.mcpserver import Context

from sie_mcp.access.allowance import allowance_of
from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.tools.folders import Folders
from sie_mcp.tools.kept_results import PREFIX, ResultStore
from sie_mcp.tools.progress import CallProgress
from sie_mcp.tools.result import Result

# Which headers say who calls, the first that is there.
CALLER_HEADERS = ("X-SIE-Client", "Mcp-Session-Id")
# Names, counts, hints and the first failures, beside a result's lists.
FRAME_TOKENS = 150

# Keeps what does not fit an answer; returns the URI to read it at, or None if it is not kept.
Keep = Callable[[Sequence[Result]], Awaitable[str | None]]


async def tell_nobody(done: int, total: int, message: str) -> None:
    """Drop a report of progress."""


async def keep_nothing(_: Sequence[Result]) -> str | None:
    """Keep nothing."""
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The lifespan context of the MCP server.

    Attributes:
        client: The one way to a worker.
        config: The settings.
        files_allowed: Whether tools may read and write files; False where callers are remote.
        results: Keeps what does not fit an answer; None keeps nothing.
        owner: Who is authenticated; only they can read what was kept for them. Empty: nobody is.
        progress: Tells the caller how far the call is.
        background: Runs what outlives a request; None where nothing may.
    """

    client: EngineClient
    config: Config
    files_allowed: bool = True
    results: ResultStore | None = None
    owner: str = ""
    progress: Progress = tell_nobody
    background: TaskGroup | None = None

    @property
    def folders(self) -> Folders:
        """The folders that paths in arguments may lie in."""
        return Folders(self.config.allow if self.files_allowed else ())

    @property
    def list_tokens(self) -> int:
        """What the lists of a result may cost; the rest of the limit is for what stands around."""
        limit = self.config.max_result_tokens
        return limit - max(limit // 10, min(FRAME_TOKENS, limit // 4))

    async def keep(self, entries: Sequence[Result]) -> str | None:
        """Keep entries for a while; return the URI of their first page, None if they are not."""
        if self.results is None:
            return None
        name = await self.results.put(
            [entry.model_dump_json(exclude_none=True) for entry in entries], self.owner
        )
        return name and PREFIX + name


# A tool's `ctx` argument.
ToolCall = Context[ToolContext]


def tool_context(ctx: ToolCall) -> ToolContext:
    """Return what the server's lifespan provides, made out to the one call and its caller."""
    request = ctx.request_context.request
    context = replace(
        ctx.request_context.lifespan_context,
        owner=owner_name(request),
        progress=CallProgress(ctx),
    )
    if request is None:
        return context
    named = context.client.named(caller_name(request), allowance_of(request.scope))
    return replace(context, client=named)


def owner_name(request: Any) -> str:
    """Return who is authenticated in a request; empty if nobody is, or there is no HTTP request."""
    if request is None:
        return ""
    allowance = allowance_of(request.scope)
    is_known = allowance is not None and allowance.is_identified
    return allowance.principal.name if allowance is not None and is_known else ""


def caller_name(request: Any) -> str:
    """Return a short name of who sent an HTTP request.

    Who was identified has one; others by their own word, their session or address.
    """
    allowance = allowance_of(request.scope)
    if allowance is not None and allowance.is_identified:
        return _short(allowance.principal.name)
    address = request.client.host if request.client is not None else ""
    named = (request.headers.get(header) for header in CALLER_HEADERS)
    name = next((name for name in named if name), address)
    return _short(name)


def _short(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
