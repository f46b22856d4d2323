"""Progress at a pace that a client can follow: not too much at once, and never long nothing.

A tool reports what it does when it does it. Here reports that come too fast are left out, the last
one apart, silence is broken by the last report again, and each number is larger than the one
before, as the protocol wants it, whatever parts a tool is made of.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import anyio
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession

from sie_mcp.gateway.beside import with_beside
from sie_mcp.tools.progress import NUDGE

# So many reports at once, and so many a second in the long run.
BURST = 5
PER_SECOND = 4.0
LOOK_EVERY_S = 0.25
# After so long a client hears that the work goes on.
SILENT_S = 1.0
METHODS = frozenset({"tools/call", "resources/read"})
WORKING = "working"

RequestContext = ServerRequestContext[Any, Any]


async def pace_progress(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Pace what a request reports; a middleware."""
    has_token = ctx.meta is not None and ctx.meta.get("progress_token") is not None
    # A client in the same process asks without a token; what nobody asked for goes nowhere.
    if ctx.method not in METHODS or (ctx.request is not None and not has_token):
        return await call_next(ctx)
    session = PacedSession(ctx.session)
    paced = replace(ctx, session=cast(ServerSession, session))
    return cast(HandlerResult, await with_beside(session.keep_talking, partial(call_next, paced)))


@dataclass(frozen=True, slots=True)
class Report:
    """What a tool said."""

    progress: float
    total: float | None
    message: str | None


class PacedSession:
    """The session of one request, which sends what it reports at a pace.

    Whatever else a session can do is that of the SDK.
    """

    def __init__(
        self, session: ServerSession, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._session = session
        self._clock = clock
        self._allowance = float(BURST)
        self._looked_s = self._sent_s = clock()
        self._last = Report(0.0, None, WORKING)
        self._waiting: Report | None = None

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a report, now or as soon as there have been fewer."""
        self._waiting = Report(progress, total, message)
        await self._send_waiting()

    async def keep_talking(self, _: Callable[[], None]) -> None:
        """Send what waits, and break the silence, until cancelled."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Send what is due."""
        if self._waiting is None and self._clock() - self._sent_s >= SILENT_S:
            self._waiting = self._last
        await self._send_waiting()

    async def _send_waiting(self) -> None:
        now_s = self._clock()
        self._allowance = min(self._allowance + (now_s - self._looked_s) * PER_SECOND, BURST)
        self._looked_s = now_s
        if self._waiting is None or self._allowance < 1:
            return
        report, self._waiting = self._waiting, None
        self._allowance -= 1
        self._sent_s = now_s
        progress = max(report.progress, self._last.progress + NUDGE)
        self._last = replace(report, progress=progress)
        await self._session.report_progress(progress, report.total, report.message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
