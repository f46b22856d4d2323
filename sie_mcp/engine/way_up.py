"""A model's way to the device: room for it first, then the model, from host memory or its files.

Lives on the event loop; reading runs on threads of its own, so that a load never holds up requests
of other models. Who may use what has come is not known here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sie_mcp.engine.loader import Loader, OnDevice, Plan
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.swaps import Swaps
from sie_mcp.engine.waiting import Waiting

_LOADING_THREADS = 2


@dataclass(frozen=True, slots=True)
class Arrived:
    """A model that is on the device, in room that was reserved for it.

    Attributes:
        adapter: The model.
        size_bytes: What it takes.
        began_s: When it had its room and began to come.
    """

    adapter: OnDevice
    size_bytes: int
    began_s: float


class WayUp:
    """Brings models to one device.

    Args:
        loader: Reads models.
        ledger: The account.
        swaps: Keeps models in host memory.
        waiting: Makes room.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        loader: Loader,
        ledger: Ledger,
        swaps: Swaps,
        waiting: Waiting,
        clock: Callable[[], float],
    ) -> None:
        self._loader = loader
        self._ledger = ledger
        self._swaps = swaps
        self._waiting = waiting
        self._clock = clock
        self._threads = ThreadPoolExecutor(_LOADING_THREADS, thread_name_prefix="load")

    async def swap_in(self, name: str) -> Arrived:
        """Bring a model back from host memory.

        Raises:
            OutOfMemory: there is no room now.
        """
        weights = self._swaps.warm[name].weights
        assert weights is not None
        # Held, its copy does not go to make room for one of those that have to leave for it.
        with self._swaps.held(name):
            await self._waiting.admit(name, weights.size_bytes)
            began_s = self._clock()
            adapter = await self._while_admitted(name, self._swaps.enter(name))
        return Arrived(adapter, weights.size_bytes, began_s)

    async def read(self, name: str) -> Arrived:
        """Find, make room, load.

        Raises:
            SieError: it cannot be had, or there is no room.
        """
        loop = asyncio.get_running_loop()
        plan: Plan = await loop.run_in_executor(self._threads, self._loader.plan, name)
        await self._waiting.admit(name, max(plan.size_bytes, plan.loading_bytes))
        began_s = self._clock()
        adapter = await self._while_admitted(
            name, loop.run_in_executor(self._threads, self._loader.load, plan)
        )
        size_bytes = plan.size_bytes if adapter.weights is None else adapter.weights.size_bytes
        return Arrived(adapter, size_bytes, began_s)

    def close(self) -> None:
        """Begin nothing any more; threads end with the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _while_admitted(self, name: str, coming: Awaitable[OnDevice]) -> OnDevice:
        """Wait for a model that has its room; the room is given back if it does not come."""
        try:
            return await coming
        except BaseException:
            self._ledger.remove(name)
            self._waiting.look_again()
            raise
