"""Models on the device: one load for many callers, room made by eviction, nothing in use evicted.

Lives on the event loop; loading runs on threads of its own, so that a load never holds up requests
of other models. All decisions are the ledger's.
"""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from sie_mcp import metrics, wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.lora import Lora
from sie_mcp.engine.loader import Loader, OnDevice, Plan
from sie_mcp.engine.memory import Ledger, Room
from sie_mcp.errors import (
    DownloadFailed,
    ModelGated,
    ModelLoadFailed,
    ModelLoading,
    ModelNotFound,
    OutOfMemory,
    SieError,
)

logger = logging.getLogger(__name__)

# A load that failed n times is tried again after 0, 1, 2, 4 … 60 s; asked earlier, the last error
# is given at once. Nothing is refused for ever.
MAX_BACKOFF_S = 60.0
# How long a load waits for models in use to finish before it gives up.
MAX_ROOM_WAIT_S = 120.0
# Names come from callers: the oldest failures are forgotten beyond this many.
MAX_FAILURES = 256
_LOADING_THREADS = 2


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed load of a model."""

    error: SieError
    attempts: int
    retry_at_s: float


class Residency:
    """The models of one device.

    Args:
        loader: Brings models up.
        ledger: The account.
        empty_caches: Gives freed memory back to the device.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        loader: Loader,
        ledger: Ledger,
        *,
        empty_caches: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loader = loader
        self._ledger = ledger
        self._empty_caches = empty_caches
        self._clock = clock
        self._adapters: dict[str, OnDevice] = {}
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, Failure] = {}
        self._released = asyncio.Event()
        self._turn = asyncio.Lock()
        self._threads = ThreadPoolExecutor(_LOADING_THREADS, thread_name_prefix="load")

    @asynccontextmanager
    async def acquire(self, name: str, wait_s: float) -> AsyncIterator[OnDevice]:
        """Hold a model for the time of a request, loading it first if need be.

        Raises:
            ModelLoading: it is not up after `wait_s`; the load goes on.
            ModelNotFound, ModelLoadFailed: it cannot be had.
        """
        adapter = await self._bring_up(name, wait_s)
        try:
            yield adapter
        finally:
            self._ledger.release(name, self._clock())
            self._released.set()

    async def evict_idle(self) -> bool:
        """Evict the least recently used idle model; False when there is none."""
        name = self._ledger.least_recent_idle()
        if name is None:
            return False
        self._evict(name)
        return True

    @contextmanager
    def keep_latest(self) -> Iterator[Adapter | None]:
        """Keep the model that was used last for a moment, which is no use of it; None if none."""
        for resident in reversed(self._ledger.residents()):
            adapter = self._adapters.get(resident.name)
            if adapter is None or isinstance(adapter, Lora) or resident.is_closing:
                continue
            self._ledger.keep(resident.name)
            try:
                yield adapter
            finally:
                self._ledger.let_go(resident.name)
                self._released.set()
            return
        yield None

    def cards(self) -> dict[str, wire.ModelCard]:
        """Describe every model that is up, coming up, or failed."""
        cards: dict[str, wire.ModelCard] = {}
        for name, failure in self._failures.items():
            error = wire.ModelError(
                code=failure.error.code,
                message=str(failure.error),
                attempts=failure.attempts,
                permanent=_is_permanent(failure.error),
            )
            cards[name] = wire.ModelCard(name=name, state="failed", last_error=error)
        for name in self._loads:
            cards[name] = wire.ModelCard(name=name, state="loading")
        for name, adapter in self._adapters.items():
            resident = self._ledger.get(name)
            update = {
                "loaded": True,
                "state": "loaded",
                "resident_bytes": resident.size_bytes if resident else 0,
            }
            cards[name] = adapter.card.model_copy(update=update)
        return cards

    def memory(self) -> dict[str, int]:
        """Return the account in bytes."""
        return {
            "budget_bytes": self._ledger.budget_bytes,
            "reserved_bytes": self._ledger.reserved_bytes,
            "resident_bytes": self._ledger.resident_bytes,
            "free_bytes": self._ledger.free_bytes,
        }

    async def aclose(self) -> None:
        """Stop waiting for loads; threads end with the process."""
        for task in self._loads.values():
            task.cancel()
        await asyncio.gather(*self._loads.values(), return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _bring_up(self, name: str, wait_s: float) -> OnDevice:
        """Return the model, counted as used once more."""
        deadline_s = self._clock() + wait_s
        while True:
            resident = self._ledger.get(name)
            if name in self._adapters and resident and not resident.is_closing:
                self._ledger.use(name, self._clock())
                return self._adapters[name]
            self._raise_recent_failure(name)
            load = self._loads.get(name)
            if load is None:
                load = asyncio.create_task(self._load(name), name=f"load {name}")
                self._loads[name] = load
                load.add_done_callback(lambda _: self._loads.pop(name, None))
            left_s = max(deadline_s - self._clock(), 0.0)
            await asyncio.wait({load}, timeout=left_s)
            if not load.done():
                raise ModelLoading(f"{name} is loading; call again", retry_after_s=2.0)
            error = load.exception()
            if error is not None:
                raise error

    def _raise_recent_failure(self, name: str) -> None:
        failure = self._failures.get(name)
        if failure is None:
            return
        left_s = failure.retry_at_s - self._clock()
        if left_s > 0 and name not in self._loads:
            message = f"{failure.error} (tried {failure.attempts} times, next in {left_s:.0f} s)"
            raise type(failure.error)(message, retry_after_s=failure.error.retry_after_s)

    async def _load(self, name: str) -> None:
        started_s = self._clock()
        try:
            await self._load_once(name, started_s)
        except ModelNotFound:
            raise  # A name that does not exist is no state of the worker.
        except SieError as error:
            attempts = self._failures[name].attempts + 1 if name in self._failures else 1
            backoff_s = 0.0 if attempts == 1 else min(2.0 ** (attempts - 2), MAX_BACKOFF_S)
            self._failures.pop(name, None)
            while len(self._failures) >= MAX_FAILURES:
                del self._failures[next(iter(self._failures))]
            self._failures[name] = Failure(error, attempts, self._clock() + backoff_s)
            metrics.MODEL_LOADS.labels("failed").inc()
            logger.warning("load failed model=%s attempts=%d error=%s", name, attempts, error)
            raise
        self._failures.pop(name, None)
        metrics.MODEL_LOADS.labels("ok").inc()
        metrics.MODEL_LOAD_SECONDS.observe(self._clock() - started_s)

    async def _load_once(self, name: str, started_s: float) -> None:
        """Find, make room, load; the room is given back if the load fails."""
        if await self._wait_until_decided(name):
            return
        loop = asyncio.get_running_loop()
        plan: Plan = await loop.run_in_executor(self._threads, self._loader.plan, name)
        await self._make_room(name, plan.size_bytes)
        reading_s = self._clock()
        try:
            adapter = await loop.run_in_executor(self._threads, self._loader.load, plan)
        except BaseException:
            self._ledger.remove(name)
            self._released.set()
            raise
        now_s = self._clock()
        self._adapters[name] = adapter
        self._ledger.settle(name, plan.size_bytes, now_s - reading_s, now_s)
        self._released.set()
        self._report()
        seconds = now_s - started_s
        logger.info("loaded model=%s bytes=%d seconds=%.2f", name, plan.size_bytes, seconds)

    async def _make_room(self, name: str, size_bytes: int) -> None:
        """Evict until there is room, one waiting load after the other."""
        if size_bytes <= self._ledger.free_bytes:
            self._ledger.admit(name, size_bytes, self._clock())
            return
        async with self._turn:
            deadline_s = self._clock() + MAX_ROOM_WAIT_S
            while True:
                room: Room = self._ledger.find_room(size_bytes, self._clock())
                if room.wait_s is None:
                    break
                if self._clock() > deadline_s:
                    raise OutOfMemory(f"no room for {name}: all models are in use; call again")
                await self._wait_for_release(room.wait_s)
            for victim in room.victims:
                self._evict(victim)
            self._ledger.admit(name, size_bytes, self._clock())
            self._ledger.reopen()
        self._released.set()

    async def _wait_until_decided(self, name: str) -> bool:
        """Wait until a closing model has left, or may stay after all; True when it stays."""
        deadline_s = self._clock() + MAX_ROOM_WAIT_S
        while resident := self._ledger.get(name):
            if not resident.is_closing:
                return True
            if self._clock() > deadline_s:
                raise OutOfMemory(f"no room for {name}: all models are in use; call again")
            await self._wait_for_release(1.0)
        return False

    async def _wait_for_release(self, timeout_s: float) -> None:
        self._released.clear()
        try:
            await asyncio.wait_for(self._released.wait(), timeout=max(timeout_s, 0.001))
        except TimeoutError:
            return

    def _evict(self, name: str) -> None:
        resident = self._ledger.get(name)
        del self._adapters[name]
        self._ledger.remove(name)
        gc.collect()
        self._empty_caches()
        metrics.MODEL_EVICTIONS.inc()
        self._report()
        logger.info("evicted model=%s bytes=%d", name, resident.size_bytes if resident else 0)

    def _report(self) -> None:
        metrics.MODELS_RESIDENT.set(len(self._adapters))
        metrics.MEMORY_BYTES.labels("budget").set(self._ledger.budget_bytes)
        metrics.MEMORY_BYTES.labels("reserved").set(self._ledger.reserved_bytes)
        metrics.MEMORY_BYTES.labels("resident").set(self._ledger.resident_bytes)


def _is_permanent(error: SieError) -> bool:
    """Whether only the user can change it: another try without that gives the same."""
    if isinstance(error, DownloadFailed):
        return isinstance(error, ModelGated)
    return isinstance(error, ModelLoadFailed)
