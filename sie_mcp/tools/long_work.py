"""Work that can outlast a call: done by one process at a time, and left off before the deadline."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread
from filelock import BaseFileLock, Timeout

from sie_mcp.client import Progress

ArgumentsT = ParamSpec("ArgumentsT")
ValueT = TypeVar("ValueT")
# What a call needs after its last part: to combine, save, and answer.
MARGIN_S = 5.0
LOCK_POLL_S = 0.25


async def acquire(lock: BaseFileLock, progress: Progress, waiting: str) -> None:
    """Take a lock without blocking the event loop, saying what is waited for."""
    while True:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            await progress(0, 1, waiting)
            await anyio.sleep(LOCK_POLL_S)
        else:
            return


def is_late(part_s: float) -> bool:
    """Whether another part, of which one took `part_s`, might not be done before the deadline."""
    left_s = anyio.current_effective_deadline() - anyio.current_time()
    return left_s < MARGIN_S + 2 * part_s


async def in_thread(
    function: Callable[ArgumentsT, ValueT],
    *arguments: ArgumentsT.args,
    **options: ArgumentsT.kwargs,
) -> ValueT:
    """Call what blocks and writes nothing; a call that is cancelled does not wait for its end."""
    return await anyio.to_thread.run_sync(
        partial(function, *arguments, **options), abandon_on_cancel=True
    )
