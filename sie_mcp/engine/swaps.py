"""Moves models between a device and host memory, and keeps those that are off the device.

Lives on the event loop; copies run on threads of their own, so that neither a swap nor a load waits
for the other. What may move when is the caller's to decide.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from sie_mcp import metrics
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.engine.device_faults import understood
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.loader import OnDevice
from sie_mcp.errors import OutOfMemory

logger = logging.getLogger(__name__)


class Swaps:
    """The host tier of one device.

    Args:
        device: Where models come to.
        ledger: The account of host memory.
        pages: The memory, in pages of the ledger's size.
        empty_caches: Gives freed memory back to the device.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        device: torch.device,
        ledger: HostLedger,
        pages: HostPages,
        *,
        empty_caches: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._ledger = ledger
        self._pages = pages
        self._empty_caches = empty_caches
        self._clock = clock
        self._warm: dict[str, OnDevice] = {}
        self._arrivals: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="swap")
        # Pages may have to be pinned first, which takes its time.
        self._staging = ThreadPoolExecutor(1, thread_name_prefix="stage")

    @property
    def warm(self) -> dict[str, OnDevice]:
        """The models that are in host memory alone."""
        return self._warm

    @property
    def ledger(self) -> HostLedger:
        """The account."""
        return self._ledger

    def host_bytes(self, name: str) -> int:
        """Return what a model takes here."""
        copy = self._ledger.get(name)
        return 0 if copy is None else copy.size_bytes

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Keep a model's copy while the context lasts."""
        self._ledger.use(name)
        try:
            yield
        finally:
            self._ledger.release(name)

    async def stage(self, name: str, adapter: OnDevice, *, displaces: bool) -> bool:
        """Copy a model that is on the device, and stays there meanwhile; False: it has no copy.

        Args:
            name: What it is kept under.
            adapter: The model.
            displaces: Others' copies may go for it; else only free room is used.
        """
        weights = adapter.weights
        if weights is None:
            return False
        copy = self._ledger.get(name)
        if copy is not None:
            return copy.is_whole
        victims = self._ledger.find_room(weights.copy_bytes)
        if victims is None or (victims and not displaces):
            return False
        for victim in victims:
            self.forget(victim)
        copy = self._ledger.admit(name, weights.copy_bytes, self._clock())
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._staging, self._stage, weights, copy.pages
            )
        except OutOfMemory as error:
            self._ledger.remove(name)
            logger.warning("no copy in host memory model=%s error=%s", name, error)
            return False
        self._ledger.settle(name)
        return True

    def leave(self, name: str, adapter: OnDevice) -> bool:
        """Take an idle model off the device; False: nothing of it is left.

        Its copy is there or it is not: call `stage` first.
        """
        copy = self._ledger.get(name)
        if adapter.weights is not None:
            adapter.weights.leave()
        if copy is None or not copy.is_whole:
            return False
        self._ledger.move(name, self._clock(), is_on_device=False)
        self._warm[name] = adapter
        return True

    async def enter(self, name: str) -> OnDevice:
        """Bring a model back. Its weights may still be on their way on return.

        Raises:
            OutOfMemory: the device has no room after all; the model is where it was.
        """
        started_s = self._clock()
        adapter = self._warm[name]
        weights = adapter.weights
        assert weights is not None
        copy = self._ledger.use(name)
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._threads, self._enter, name, weights, copy.pages
            )
        except OutOfMemory:
            self._ledger.release(name)
            metrics.MODEL_SWAPS.labels("failed").inc()
            raise
        del self._warm[name]
        self._ledger.move(name, self._clock(), is_on_device=True)
        arrival = asyncio.create_task(self._arrive(name, weights, started_s))
        self._arrivals[name] = arrival
        arrival.add_done_callback(lambda _: self._arrivals.pop(name, None))
        return adapter

    async def until_arrived(self, name: str) -> None:
        """Wait until a model's copy is not read any more by a swap."""
        if name in self._arrivals:
            await asyncio.wait({self._arrivals[name]})

    def forget(self, name: str) -> None:
        """Drop a model's copy, unless it is in use; one that was here alone is gone."""
        copy = self._ledger.get(name)
        if copy is None or copy.users:
            return
        self._ledger.remove(name)
        if self._warm.pop(name, None) is not None:
            logger.info("dropped model=%s from=host", name)

    async def aclose(self) -> None:
        """Stop; threads end with the process."""
        await asyncio.gather(*self._arrivals.values(), return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._staging.shutdown(wait=False, cancel_futures=True)

    async def _arrive(self, name: str, weights: FlatWeights, started_s: float) -> None:
        """Hold the copy until the device has read it."""
        await asyncio.get_running_loop().run_in_executor(self._threads, weights.arrived)
        self._ledger.release(name)
        seconds = self._clock() - started_s
        metrics.MODEL_SWAPS.labels("ok").inc()
        metrics.MODEL_SWAP_SECONDS.observe(seconds)
        logger.info("swapped in model=%s bytes=%d seconds=%.4f", name, weights.copy_bytes, seconds)

    def _stage(self, weights: FlatWeights, numbers: tuple[int, ...]) -> None:
        with understood(self._device, "no host memory for weights"):
            weights.stage(self._pages.get(numbers))

    def _enter(self, name: str, weights: FlatWeights, numbers: tuple[int, ...]) -> None:
        pages = self._pages.get(numbers)
        with understood(self._device, f"no memory to bring {name} back now; call again"):
            try:
                weights.enter(self._device, pages)
            except torch.OutOfMemoryError:
                # The account has room: it is the allocator's, in pieces, or another program's.
                self._empty_caches()
                weights.enter(self._device, pages)
