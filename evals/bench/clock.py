"""Times of ours and of peers by turns, so that what else the machine does falls on all of them."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from sie_mcp.event_loop import loop_factory

# A peer's turn, which may wait for nothing; ours, which waits for the engine.
Turn = Callable[[], Awaitable[object]]
Rows = list[dict[str, Any]]


def blocking(run: Callable[[], object]) -> Turn:
    """Return a turn that keeps the event loop for itself."""

    async def turn() -> object:
        return run()

    return turn


async def by_turns(
    turns: Mapping[str, Turn], *, rounds: int, limit_s: float, warm: int = 1
) -> dict[str, list[float]]:
    """Run every turn in each round; return seconds by name.

    Rounds end early once `limit_s` is over; each has run at least once after it was warmed.
    """
    begun_s = time.perf_counter()
    found: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(-warm, rounds):
        for name, turn in turns.items():
            started_s = time.perf_counter()
            await turn()
            if number >= 0:
                found[name].append(time.perf_counter() - started_s)
        if number >= 0 and time.perf_counter() - begun_s > limit_s:
            break
    return found


def median(times: Sequence[float]) -> float:
    """Return the median in seconds."""
    return statistics.median(times)


def spread(times: Sequence[float]) -> float:
    """Return how far the slowest was from the fastest, over the median."""
    return round((max(times) - min(times)) / statistics.median(times), 3)


def p50_ms(times: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return round(1000 * statistics.median(times), 3)


def run(measured: Coroutine[Any, Any, Rows]) -> Rows:
    """Run a part on an event loop as a worker has it."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(measured)
