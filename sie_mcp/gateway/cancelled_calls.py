"""Notices of cancelled requests that arrive apart from the request, as the old era's do over HTTP.

Without sessions every POST has a server of its own inside the SDK, and one that hears
`notifications/cancelled` knows none of the others' requests. This middleware does: it joins notice
and request by who sent them and by the request's id.

Ids count from one, so a sender must be one that nobody else can pass for: a session name, which we
made up and told only its client (see `session_names`), or a name that the client gave itself, each
together with who is authenticated. Of a client with neither no notice is heeded; its call ends when
it hangs up, or at the deadline.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.types import INTERNAL_ERROR

from sie_mcp.errors import StoreUnavailable
from sie_mcp.gateway.beside import with_beside
from sie_mcp.tools.context import CALLER_HEADERS, owner_name
from sie_mcp.tools.stores import Store

logger = logging.getLogger(__name__)

NOTICE = "notifications/cancelled"
# What runs long enough to be cancelled.
METHODS = frozenset({"tools/call", "resources/read", "completion/complete"})
# How often a call looks for a notice that another replica heard, and how long that is kept.
LOOK_EVERY_S = 1.0
NOTICE_TTL_S = 60.0
# Notices on their way to the store; anybody can send them.
MAX_TELLING = 64

RequestContext = ServerRequestContext[Any, Any]


class CancelledCalls:
    """A middleware of the server; see the module."""

    def __init__(self, store: Store, *, look_every_s: float = LOOK_EVERY_S) -> None:
        self._store = store
        self._look_every_s = look_every_s
        self._running: defaultdict[str, list[anyio.CancelScope]] = defaultdict(list)
        self._num_telling = 0

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Heed a notice, or run a request until one comes."""
        if ctx.method == NOTICE:
            self._heed(ctx)
            return await call_next(ctx)
        key = _key(ctx.request, ctx.request_id) if ctx.method in METHODS else None
        return await call_next(ctx) if key is None else await self._run(key, ctx, call_next)

    def _heed(self, ctx: RequestContext) -> None:
        key = _key(ctx.request, (ctx.params or {}).get("requestId"))
        if key is None:
            return
        scopes = self._running.get(key, [])
        # Two requests of one id: the notice does not say which is meant.
        if len(scopes) == 1:
            scopes[0].cancel()
        background = ctx.lifespan_context.background
        if not scopes and self._store.is_shared and self._num_telling < MAX_TELLING:
            # Not here: the SDK ends what a notice began as soon as it is acknowledged.
            background.start_soon(self._tell, key)

    async def _tell(self, key: str) -> None:
        """Pass a notice on to the replicas."""
        self._num_telling += 1
        try:
            await self._store.put(key, b"", NOTICE_TTL_S)
        except StoreUnavailable as error:
            logger.warning("a cancelled call may run on: %s", error)
        finally:
            self._num_telling -= 1

    async def _run(self, key: str, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        result: HandlerResult = None
        with anyio.CancelScope() as scope:
            self._running[key].append(scope)
            try:
                if self._store.is_shared:
                    result = await with_beside(partial(self._look, key), partial(call_next, ctx))
                else:
                    result = await call_next(ctx)
            finally:
                self._running[key].remove(scope)
                if not self._running[key]:
                    del self._running[key]
        if result is None:
            raise MCPError(code=INTERNAL_ERROR, message="cancelled by the client")
        return result

    async def _look(self, key: str, end: Callable[[], None]) -> None:
        while True:
            await anyio.sleep(self._look_every_s)
            try:
                if await self._store.get(key) is not None:
                    await self._store.delete(key)
                    end()
            except StoreUnavailable as error:
                logger.warning("not known whether a call is still wanted: %s", error)


def _key(request: Any, request_id: Any) -> str | None:
    """Return a name for one request of one sender; None where the sender could be anybody."""
    if request is None or not isinstance(request_id, int | str):
        return None
    named = [request.headers.get(header) or "" for header in CALLER_HEADERS]
    if not any(named):
        return None
    parts = "\0".join([owner_name(request), *named, type(request_id).__name__, str(request_id)])
    digest = hashlib.blake2b(parts.encode(errors="replace"), digest_size=16)
    return f"cancelled:{digest.hexdigest()}"
