"""Loads that wait for room on the device, one after the other. Lives on the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sie_mcp.engine.memory import Ledger
from sie_mcp.errors import OutOfMemory

# How long a load waits for models in use to finish before it gives up.
MAX_ROOM_WAIT_S = 120.0


class Waiting:
    """Makes room for a load, by eviction and by patience.

    Args:
        ledger: The account.
        evict: Takes a model off the device, unless it has come to use meanwhile.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        ledger: Ledger,
        evict: Callable[[str], Coroutine[Any, Any, None]],
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._evict = evict
        self._clock = clock
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()

    def look_again(self) -> None:
        """Say that something has left, or has come to rest."""
        self._changed.set()

    async def until_changed(self, timeout_s: float) -> None:
        """Wait until something has left, or has come to rest; at most so long."""
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), timeout=max(timeout_s, 0.001))
        except TimeoutError:
            return

    async def admit(self, name: str, size_bytes: int) -> None:
        """Reserve room for a model, evicting others until there is some.

        Raises:
            ModelTooLarge: there never will be.
            OutOfMemory: all others stayed in use.
        """
        if size_bytes <= self._ledger.free_bytes:
            self._ledger.admit(name, size_bytes, self._clock())
            return
        async with self._turn:
            try:
                await self._make_room(name, size_bytes)
                self._ledger.admit(name, size_bytes, self._clock())
            finally:
                self._ledger.reopen()
                self.look_again()

    async def until_decided(self, name: str) -> bool:
        """Wait until a closing model has left, or may stay after all; True when it stays.

        Raises:
            OutOfMemory: it does neither.
        """
        deadline_s = self._clock() + MAX_ROOM_WAIT_S
        while resident := self._ledger.get(name):
            if not resident.is_closing:
                return True
            self._check(name, deadline_s)
            await self.until_changed(1.0)
        return False

    async def _make_room(self, name: str, size_bytes: int) -> None:
        deadline_s = self._clock() + MAX_ROOM_WAIT_S
        while True:
            room = self._ledger.find_room(size_bytes, self._clock())
            if room.wait_s is not None:
                self._check(name, deadline_s)
                await self.until_changed(room.wait_s)
                continue
            if not room.victims:
                return
            # Leaving takes time: afterwards the rest may be in use, or what was free taken.
            for victim in room.victims:
                await self._evict(victim)

    def _check(self, name: str, deadline_s: float) -> None:
        if self._clock() > deadline_s:
            raise OutOfMemory(f"no room for {name}: all models are in use; call again")
