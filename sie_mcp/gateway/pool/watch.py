"""What each worker holds, asked of it several times a second: residency must not be old.

Lives on one event loop. Knows addresses and `GET /v1/memory`; chooses nobody.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import httpx2

from sie_mcp.answer import read_answer
from sie_mcp.connection import Address, Connections
from sie_mcp.errors import SieError
from sie_mcp.gateway.pool.in_hand import InHand
from sie_mcp.gateway.pool.keys import Key
from sie_mcp.gateway.pool.members import Members
from sie_mcp.wire_memory import DeviceMemory, MemoryAccount

logger = logging.getLogger(__name__)

# Half of what routing bears well (evals/cluster_sim.py): two looks within half a second.
LOOK_EVERY_S = 0.25
MEMBERS_EVERY_S = 2.0
LOOK_TIMEOUT_S = 1.0
# One look may time out where a load keeps a worker's loop busy: its models need not be loaded
# elsewhere for that.
MAX_MISSED_LOOKS = 1
# What a worker has in hand goes to others when it has said nothing for so long, connections open
# or not: far longer than a load keeps it from answering, far shorter than callers wait.
SILENT_S = 10.0
MAX_LOOKS = 64
LORA_MARK = " + "


@dataclass(slots=True)
class Known:
    """One worker as it last described itself; `room` and `idle_s` as the picker has them."""

    address: Address
    is_ready: bool = False
    resident: frozenset[Key] = frozenset()
    nearby: frozenset[Key] = frozenset()
    loading: frozenset[Key] = frozenset()
    room: float = math.inf
    idle_s: float = 0.0
    account: MemoryAccount | None = field(default=None, repr=False)
    is_looking: bool = field(default=False, repr=False)
    num_missed: int = 0
    heard_s: float = field(default_factory=time.monotonic)

    def has_loaded(self, key: Key) -> None:
        """Count a model as there before the next look says so."""
        if key not in self.resident | self.loading:
            self.room -= 1
        self.resident |= {key}


class Watch:
    """Workers of a pool and what they hold.

    Args:
        members: Says who there is.
        connections: To ask them by.
        changed: Called when something may have changed.

    Attributes:
        known: Those that there are, by base URL.
        is_known: Whether it was ever heard who there is; there may be nobody.
        in_hand: Requests that workers have.
    """

    def __init__(
        self, members: Members, connections: Connections, changed: Callable[[], None]
    ) -> None:
        self._members = members
        self._connections = connections
        self._changed = changed
        self._limit = anyio.CapacityLimiter(MAX_LOOKS)
        self._told = anyio.Event()
        self.known: dict[str, Known] = {}
        self.is_known = False
        self.in_hand = InHand()

    async def run(self) -> None:
        """Look until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_members)
            group.start_soon(self._members.follow, self._members_changed)
            while True:
                for one in list(self.known.values()):
                    if not one.is_looking:
                        one.is_looking = True
                        group.start_soon(self._look_once, one)
                await anyio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Ask who there is, and each of them, once."""
        await self._update_members()
        async with anyio.create_task_group() as group:
            for one in self.known.values():
                group.start_soon(self._look_once, one)

    async def _follow_members(self) -> None:
        while True:
            self._told = anyio.Event()
            await self._update_members()
            with anyio.move_on_after(MEMBERS_EVERY_S):
                await self._told.wait()

    def _members_changed(self) -> None:
        self._told.set()

    async def _update_members(self) -> None:
        try:
            addresses = {one.base_url: one for one in await self._members.now()}
        except OSError as error:
            logger.warning("members cannot be found out error=%s", error)
            return
        for name, address in addresses.items():
            if name not in self.known:
                self.known[name] = Known(address)
        for name in self.known.keys() - addresses.keys():
            del self.known[name]
        self.is_known = True
        self._changed()

    async def _look_once(self, one: Known) -> None:
        account = None
        try:
            async with self._limit:
                account = await self._ask(one.address)
            one.is_ready = account is not None
            one.num_missed, one.heard_s = 0, time.monotonic()
        except httpx2.TimeoutException:
            one.num_missed += 1
            if one.num_missed > MAX_MISSED_LOOKS:
                one.is_ready = False
                self._take_back_if_silent(one)
        finally:
            one.is_looking = False
        if account is not None:
            _describe(one, account)
        self._changed()

    def _take_back_if_silent(self, one: Known) -> None:
        silence_s = time.monotonic() - one.heard_s
        if silence_s < SILENT_S:
            return
        count = self.in_hand.take_back(one.address.base_url)
        if count:
            logger.warning(
                "%s has been silent for %.0f s requests=%d go to others",
                one.address, silence_s, count,
            )  # fmt: skip

    async def _ask(self, address: Address) -> MemoryAccount | None:
        """Return a worker's account; None where there is none, or it is leaving.

        Raises:
            TimeoutException: it says nothing.
        """
        client = self._connections.to(address)
        try:
            # Cut off half-way a look would leave its connection open.
            with anyio.CancelScope(shield=True):
                answer = await client.get("/v1/memory", timeout=LOOK_TIMEOUT_S)
            return read_answer(answer, MemoryAccount)
        except httpx2.TimeoutException:
            raise
        except (httpx2.RequestError, SieError):
            return None


def _describe(one: Known, account: MemoryAccount) -> None:
    """Bring what is known of a worker up to its account."""
    one.account = account
    models = [model for device in account.devices for model in device.models]
    hosts = [device.host for device in account.devices if device.host is not None]
    one.resident = frozenset(key_of(model.name) for model in models if model.state == "loaded")
    one.loading = frozenset(key_of(model.name) for model in models if model.state == "loading")
    one.nearby = frozenset(key_of(model.name) for host in hosts for model in host.models)
    one.room = max(map(_room, account.devices), default=math.inf)
    one.idle_s = max(map(_idle_s, account.devices), default=0.0)


def _room(device: DeviceMemory) -> float:
    """Return how many models more fit; infinite where none is there.

    Those that are to come have sizes that nobody knows here: say, that of those that are there.
    """
    if not device.models:
        return math.inf
    mean = sum(model.size_bytes for model in device.models) / len(device.models)
    return device.free_bytes / max(mean, 1)


def _idle_s(device: DeviceMemory) -> float:
    """Return for how long what a device would evict has not been used."""
    idle = [model.unused_s for model in device.models if not (model.pinned or model.users)]
    return max(idle, default=0.0)


def key_of(name: str) -> Key:
    """Read a name of an account: a LoRA's is its model's and its own."""
    model, mark, lora = name.partition(LORA_MARK)
    return Key(model, lora) if mark else Key(model)
