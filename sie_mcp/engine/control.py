"""What moves models by hand and by the clock: load, pin, unload, unused ones leaving, the account.

Lives on the event loop, over all lanes; every decision about memory is still the ledger's.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sie_mcp import wire_memory
from sie_mcp.engine.lane import Lane, Lanes
from sie_mcp.errors import ModelInUse, SieError
from sie_mcp.wire_memory import UnloadTier

logger = logging.getLogger(__name__)

# Unused models are looked for this often within their time: they leave at most that much late.
CHECKS_PER_IDLE_TIME = 4
MIN_CHECK_S = 0.05


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """What happens without a request, as the settings say.

    Attributes:
        idle_s: Models unused for so long leave; 0 for never.
        preload: Brought up at the start.
        pinned: The same, and kept.
    """

    idle_s: float = 0.0
    preload: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self, control: "Control") -> AsyncIterator[None]:
        """Do it for the length of the block."""
        tasks = []
        if self.preload or self.pinned:
            # Before the first probe can ask.
            control.is_preloading = True
            tasks.append(asyncio.create_task(control.preload(self.preload, self.pinned)))
        if self.idle_s:
            tasks.append(asyncio.create_task(control.leave_unused(self.idle_s)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Control:
    """Loads, pins and unloads models of all lanes.

    Args:
        lanes: The devices.
        clock: Seconds, monotonic; the lanes' own.

    Attributes:
        is_preloading: Whether what the settings name is still being brought up.
    """

    def __init__(self, lanes: Lanes, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lanes = lanes
        self._clock = clock
        self.is_preloading = False

    def holds(self, model: str) -> bool:
        """Whether a model is on a device, or is coming."""
        return bool(self._lanes.holding(model))

    async def load(self, model: str, wait_s: float, *, pin: bool) -> None:
        """Begin to bring a model up, and wait for it for so long.

        Raises:
            SieError: why it cannot be had, if that is known within the time.
        """
        holding = self._lanes.holding(model)
        lane = holding[0] if holding else self._lanes.choose(model)
        was_pinned = lane.ledger.is_pinned(model)
        lane.ledger.pin(model, is_pinned=pin or was_pinned)
        try:
            lane.residency.start_load(model)
            await lane.residency.wait_until_up(model, wait_s)
        except SieError:
            # A pin is for what is there: names that cannot be had are not collected.
            lane.ledger.pin(model, is_pinned=was_pinned)
            raise

    def pin(self, model: str) -> bool:
        """Keep a model where it is, or is coming; False where it is nowhere."""
        holding = self._lanes.holding(model)
        for lane in holding:
            lane.ledger.pin(model, is_pinned=True)
        return bool(holding)

    def unpin(self, model: str) -> None:
        """Let a model leave again when there is need."""
        for lane in self._lanes.all:
            lane.ledger.pin(model, is_pinned=False)

    async def unload(self, model: str, wait_s: float, tier: UnloadTier = "host") -> None:
        """Take a model off all devices, with its pin; `tier` says where it stays.

        Raises:
            ModelInUse: requests still hold it after the time.
        """
        self.unpin(model)
        deadline_s = self._clock() + wait_s
        for lane in self._lanes.all:
            await self._unload(lane, model, deadline_s, tier)

    async def leave_unused(self, idle_s: float) -> None:
        """Unload what nobody has used for so long, for ever; run it as a task."""
        while True:
            for lane in self._lanes.all:
                for model in lane.ledger.unused_for(idle_s, self._clock()):
                    await lane.residency.unload(model, "host")
            await asyncio.sleep(max(idle_s / CHECKS_PER_IDLE_TIME, MIN_CHECK_S))

    async def preload(self, models: Sequence[str], pinned: Sequence[str]) -> None:
        """Bring up what the settings name, one after the other; what fails is logged, and left."""
        try:
            for model in dict.fromkeys([*models, *pinned]):
                try:
                    await self.load(model, wire_memory.MAX_WAIT_S, pin=model in pinned)
                except SieError as error:
                    logger.warning("preload failed model=%s error=%s", model, error)
        finally:
            self.is_preloading = False

    def account(self) -> wire_memory.MemoryAccount:
        """Return the account of every device."""
        now_s = self._clock()
        return wire_memory.MemoryAccount(devices=[one.account(now_s) for one in self._lanes.all])

    async def _unload(self, lane: Lane, model: str, deadline_s: float, tier: UnloadTier) -> None:
        """Close the model to new requests, and let it go when the present ones are done."""
        while (resident := lane.ledger.get(model)) or lane.residency.is_loading(model):
            is_up = resident is not None and resident.loaded_at_s is not None
            if resident and is_up and not resident.users:
                break
            left_s = deadline_s - self._clock()
            if left_s <= 0:
                if resident:
                    resident.is_closing = False
                raise ModelInUse(
                    f"{model} is {'in use' if is_up else 'loading'} on {lane.name}; "
                    "give wait_s to wait for that to end, or try again later"
                )
            if resident and is_up:
                resident.is_closing = True
            await lane.residency.until_changed(min(left_s, 1.0))
        await lane.residency.unload(model, tier)
