"""Models on the device: who may use them, who must leave, and where from they come back.

Lives on the event loop. All decisions are the ledgers'; how a model comes up is known to way_up.py.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from sie_mcp import metrics, wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.lora import Lora
from sie_mcp.engine.loader import Loader, OnDevice
from sie_mcp.engine.loads import Loads
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.model_states import account_of, cards_of
from sie_mcp.engine.swaps import Swaps
from sie_mcp.engine.thrash import Thrash, report_eviction
from sie_mcp.engine.waiting import Waiting
from sie_mcp.engine.way_up import Arrived, WayUp
from sie_mcp.errors import ModelLoading
from sie_mcp.wire_memory import UnloadTier

logger = logging.getLogger(__name__)


class Residency:
    """The models of one device.

    Args:
        loader: Brings models up.
        ledger: The account.
        swaps: Keeps models in host memory.
        empty_caches: Gives freed memory back to the device.
        after_eviction: Hears how much freed memory may be kept: giving back takes longer than a
            swap.
        clock: Seconds, monotonic.
        device_name: Tells its figures from those of other devices.
    """

    def __init__(
        self,
        loader: Loader,
        ledger: Ledger,
        swaps: Swaps,
        *,
        empty_caches: Callable[[], None] = lambda: None,
        after_eviction: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        device_name: str = "",
    ) -> None:
        self._ledger = ledger
        self._swaps = swaps
        self._empty_caches = empty_caches
        self._after_eviction = after_eviction
        self._clock = clock
        self._device_name = device_name
        self.thrash = Thrash()
        self._adapters: dict[str, OnDevice] = {}
        self._loads = Loads(self._load, clock)
        self._waiting = Waiting(ledger, self._make_way, clock)
        self._way_up = WayUp(loader, ledger, swaps, self._waiting, clock)
        self._background: set[asyncio.Task[None]] = set()

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
            self._release(name)

    def start_load(self, name: str) -> None:
        """Begin to bring a model up, unless it is there, coming, or has failed just now.

        Raises:
            SieError: its last load's, until the next try is due.
        """
        if name not in self._adapters:
            self._loads.start(name)

    async def wait_until_up(self, name: str, wait_s: float) -> None:
        """Wait for a load that has begun; return early when it ends.

        Raises:
            SieError: the load's.
        """
        if self._loads.is_under_way(name):
            with suppress(ModelLoading):
                await self._loads.join(name, wait_s)

    def is_loading(self, name: str) -> bool:
        """Whether a model is on its way."""
        return self._loads.is_under_way(name)

    @property
    def num_loading(self) -> int:
        """Models on their way."""
        return self._loads.num_under_way

    @property
    def swaps(self) -> Swaps:
        """The host tier."""
        return self._swaps

    def worked(self, name: str, *, tokens: int, device_s: float) -> None:
        """Count a request that a model has answered as useful work."""
        self.thrash.worked(name, tokens=tokens, device_s=device_s)

    async def unload(self, name: str, tier: UnloadTier) -> None:
        """Let an idle model go, to host memory or altogether."""
        await self._evict(name, is_victim=False, is_kept=tier == "host")
        if tier == "all":
            await self._swaps.until_arrived(name)
            if self._ledger.get(name) is None:
                self._swaps.forget(name)
        self._waiting.look_again()

    async def until_changed(self, timeout_s: float) -> None:
        """Wait until any model is released, or any load has ended; at most so long."""
        await self._waiting.until_changed(timeout_s)

    async def evict_idle(self) -> bool:
        """Evict the idle model that leaves first; False when there is none.

        For when the device itself is out of memory: all that is freed is given back.
        """
        name = self._ledger.first_idle()
        if name is None:
            return False
        await self._evict(name, is_victim=True)
        self._empty_caches()
        return True

    @contextmanager
    def keep_latest(self) -> Iterator[Adapter | None]:
        """Keep the model that was used last for a moment, which is no use of it; None if none."""
        for resident in reversed(self._ledger.residents()):
            adapter = self._adapters.get(resident.name)
            if adapter is None or isinstance(adapter, Lora) or resident.is_closing:
                continue
            with self._kept(resident.name):
                yield adapter
            return
        yield None

    @contextmanager
    def _kept(self, name: str) -> Iterator[None]:
        """Have a model stay, which is no use of it."""
        self._ledger.keep(name)
        try:
            yield
        finally:
            self._ledger.let_go(name)
            self._waiting.look_again()

    def cards(self) -> dict[str, wire.ModelCard]:
        """Describe every model that is up, in host memory, coming up, or failed."""
        return cards_of(self._adapters, self._ledger, self._swaps, self._loads)

    def card(self, name: str) -> wire.ModelCard | None:
        """Describe a model that is up or in host memory, without its account."""
        found = self._adapters.get(name) or self._swaps.warm.get(name)
        return None if found is None else found.card

    def memory(self) -> dict[str, int]:
        """Return the account in bytes."""
        return account_of(self._ledger, self._swaps)

    async def aclose(self) -> None:
        """Stop waiting for loads; threads end with the process."""
        await self._loads.aclose()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._swaps.aclose()
        self._way_up.close()

    async def _bring_up(self, name: str, wait_s: float) -> OnDevice:
        """Return the model, counted as used once more."""
        deadline_s = self._clock() + wait_s
        while True:
            resident = self._ledger.get(name)
            if name in self._adapters and resident and not resident.is_closing:
                self._ledger.use(name, self._clock())
                return self._adapters[name]
            await self._loads.join(name, max(deadline_s - self._clock(), 0.0))

    def _release(self, name: str) -> None:
        self._ledger.release(name, self._clock())
        self._waiting.look_again()

    def _let_go(self, name: str) -> None:
        self._ledger.let_go(name)
        self._waiting.look_again()

    async def _load(self, name: str) -> None:
        """Bring a model up, from host memory or from its files."""
        if await self._waiting.until_decided(name):
            return
        if name in self._swaps.warm:
            self._settle(name, await self._way_up.swap_in(name))
        else:
            await self._read(name)

    async def _read(self, name: str) -> None:
        """Load from files; keep a copy in host memory if there is room."""
        started_s = self._clock()
        arrived = await self._way_up.read(name)
        self._settle(name, arrived)
        seconds = self._clock() - started_s
        metrics.MODEL_LOADS.labels("ok").inc()
        metrics.MODEL_LOAD_SECONDS.observe(seconds)
        logger.info("loaded model=%s bytes=%d seconds=%.2f", name, arrived.size_bytes, seconds)
        self._stage_later(name, arrived.adapter)

    def _settle(self, name: str, arrived: Arrived) -> None:
        now_s = self._clock()
        self._adapters[name] = arrived.adapter
        self._ledger.settle(name, arrived.size_bytes, now_s - arrived.began_s, now_s)
        self.thrash.loaded(name, now_s - arrived.began_s, now_s)
        self._waiting.look_again()
        self._report()

    def _stage_later(self, name: str, adapter: OnDevice) -> None:
        """Copy a model to host memory before it has to leave; others' copies stay."""
        # A use, so that it is not evicted half-way.
        self._ledger.keep(name)
        task = asyncio.create_task(self._stage(name, adapter))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _stage(self, name: str, adapter: OnDevice) -> None:
        try:
            await self._swaps.stage(name, adapter, displaces=False)
        finally:
            self._let_go(name)
            self._report()

    async def _make_way(self, name: str) -> None:
        await self._evict(name, is_victim=True)

    async def _evict(self, name: str, *, is_victim: bool, is_kept: bool = True) -> None:
        """Move an idle model to host memory, or drop it where there is no room."""
        resident = self._ledger.get(name)
        if resident is None or resident.users or name not in self._adapters:
            return  # It has left, or come to use, while another left.
        adapter = self._adapters[name]
        # Taken by nobody while its copy is made.
        resident.is_closing = True
        with self._kept(name):
            if is_kept:
                await self._swaps.stage(name, adapter, displaces=True)
        if resident.users:
            return  # Whoever needed the room has it from elsewhere.
        del self._adapters[name]
        self._ledger.remove(name, is_victim=is_victim)
        is_warm = self._swaps.leave(name, adapter)
        self._after_eviction(self._ledger.reserved_bytes + self._ledger.free_bytes)
        stay = self.thrash.left(name, is_victim=is_victim)
        if is_victim and stay is not None:
            report_eviction(stay)
        self._report()
        goes_to = "host" if is_warm else "disk"
        logger.info("evicted model=%s bytes=%d to=%s", name, resident.size_bytes, goes_to)

    def _report(self) -> None:
        device = self._device_name
        metrics.MODELS_RESIDENT.labels(device).set(len(self._adapters))
        for kind, size_bytes in self.memory().items():
            metrics.MEMORY_BYTES.labels(kind.removesuffix("_bytes"), device).set(size_bytes)
