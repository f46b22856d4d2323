"""Progress of a tool call, as the protocol wants it: each number larger than the last."""

from typing import Protocol

# What a report adds when the work itself did not move, e.g. while a model loads.
NUDGE = 0.01
# Clients show no more.
MAX_MESSAGE_CHARS = 200


class Listener(Protocol):
    """Whoever asked for a call's progress; a tool's `ctx` is one."""

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Hear how far the call is."""


class CallProgress:
    """Passes progress on to the caller of one tool call; the client ignores it if it did not ask.

    A new total starts a new stage, which counts on from where the last one stopped.
    """

    def __init__(self, ctx: Listener) -> None:
        self._ctx = ctx
        self._before = 0.0
        self._total = -1
        self._last = 0.0

    async def __call__(self, done: int, total: int, message: str) -> None:
        """Report `done` of `total` in the stage that `message` names."""
        if total != self._total:
            self._before, self._total = self._last, total
        self._last = max(self._before + done, self._last + NUDGE)
        await self._ctx.report_progress(
            self._last, self._before + total, message[:MAX_MESSAGE_CHARS]
        )
