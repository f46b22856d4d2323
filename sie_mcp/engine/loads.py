"""One load for many callers, and what became of those that failed.

Lives on the event loop; what a load is, is the caller's to say.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sie_mcp import metrics, wire
from sie_mcp.errors import (
    DownloadFailed,
    ModelGated,
    ModelLoadFailed,
    ModelLoading,
    ModelNotFound,
    SieError,
)

logger = logging.getLogger(__name__)

# A load that failed n times is tried again after 0, 1, 2, 4 … 60 s; asked earlier, the last error
# is given at once. Nothing is refused for ever.
MAX_BACKOFF_S = 60.0
# Names come from callers: the oldest failures are forgotten beyond this many.
MAX_FAILURES = 256


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed load of a model."""

    error: SieError
    attempts: int
    retry_at_s: float


class Loads:
    """The loads under way.

    Args:
        load: Brings a model up, or raises SieError.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, load: Callable[[str], Coroutine[Any, Any, None]], clock: Callable[[], float]
    ) -> None:
        self._load = load
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, Failure] = {}

    async def join(self, name: str, wait_s: float) -> None:
        """Wait for a model's load, starting one if there is none.

        Raises:
            ModelLoading: it is not up after `wait_s`; the load goes on.
            SieError: it failed, now or so lately that it is not tried again yet.
        """
        task = self.start(name)
        await asyncio.wait({task}, timeout=wait_s)
        if not task.done():
            raise ModelLoading(f"{name} is loading; call again", retry_after_s=2.0)
        error = task.exception()
        if error is not None:
            raise error

    def start(self, name: str) -> asyncio.Task[None]:
        """Return a model's load, begun if there is none. Nobody need wait for it.

        Raises:
            SieError: it failed so lately that it is not tried again yet.
        """
        self._raise_recent_failure(name)
        task = self._tasks.get(name)
        if task is None:
            task = asyncio.create_task(self._run(name), name=f"load {name}")
            self._tasks[name] = task
            task.add_done_callback(lambda done: self._end(name, done))
        return task

    def is_under_way(self, name: str) -> bool:
        """Whether a model is coming up."""
        return name in self._tasks

    @property
    def num_under_way(self) -> int:
        """Models that are coming up."""
        return len(self._tasks)

    def cards(self) -> dict[str, wire.ModelCard]:
        """Describe every model that is coming up, or failed to."""
        cards: dict[str, wire.ModelCard] = {}
        for name, failure in self._failures.items():
            error = wire.ModelError(
                code=failure.error.code,
                message=str(failure.error),
                attempts=failure.attempts,
                permanent=_is_permanent(failure.error),
            )
            cards[name] = wire.ModelCard(name=name, state="failed", last_error=error)
        for name in self._tasks:
            cards[name] = wire.ModelCard(name=name, state="loading")
        return cards

    async def aclose(self) -> None:
        """Give up what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        if not task.cancelled():
            # Known as a failure by now, whether or not anybody waited.
            task.exception()

    def _raise_recent_failure(self, name: str) -> None:
        failure = self._failures.get(name)
        if failure is None:
            return
        left_s = failure.retry_at_s - self._clock()
        if left_s > 0 and name not in self._tasks:
            message = f"{failure.error} (tried {failure.attempts} times, next in {left_s:.0f} s)"
            raise type(failure.error)(message, retry_after_s=failure.error.retry_after_s)

    async def _run(self, name: str) -> None:
        try:
            await self._load(name)
        except ModelNotFound:
            raise  # A name that does not exist is no state of the worker.
        except SieError as error:
            attempts = self._failures[name].attempts + 1 if name in self._failures else 1
            backoff_s = 0.0 if attempts == 1 else min(2.0 ** (attempts - 2), MAX_BACKOFF_S)
            self._failures.pop(name, None)
            while len(self._failures) >= MAX_FAILURES:
                del self._failures[next(iter(self._failures))]
            # Not the error itself: its traceback holds all that was loaded.
            kept = type(error)(str(error), retry_after_s=error.retry_after_s)
            self._failures[name] = Failure(kept, attempts, self._clock() + backoff_s)
            metrics.MODEL_LOADS.labels("failed").inc()
            logger.warning("load failed model=%s attempts=%d error=%s", name, attempts, error)
            raise
        self._failures.pop(name, None)


def _is_permanent(error: SieError) -> bool:
    """Whether only the user can change it: another try without that gives the same."""
    if isinstance(error, DownloadFailed):
        return isinstance(error, ModelGated)
    return isinstance(error, ModelLoadFailed)
