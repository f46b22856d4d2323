"""A pool of workers as an endpoint: each request waits here until there is one for it.

Lives on one event loop. Joins who is there and what they hold (watch), what is wanted (demand), who
stands aside (ejection) and who gets what (picker); sends nothing itself but wishes to load.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

import anyio
import anyio.abc
import httpx2

from sie_mcp import metrics
from sie_mcp.connection import Address, Connections
from sie_mcp.errors import QueueFull, WorkerUnavailable
from sie_mcp.gateway.pool.demand import Demand
from sie_mcp.gateway.pool.ejection import Ejections
from sie_mcp.gateway.pool.keys import Key
from sie_mcp.gateway.pool.members import Members
from sie_mcp.gateway.pool.picker import Choice, Fetching, Seen, next_best, only, pick
from sie_mcp.gateway.pool.watch import Watch

logger = logging.getLogger(__name__)

# A load that was asked for is given up on after this long unseen.
ASKED_S = 10.0
PREFETCH_TIMEOUT_S = 5.0
# A pool that was asked for counts as wanted for this long: a poll of what scales it must see it.
WANTED_S = 30.0


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What a pool may have waiting and running.

    Attributes:
        slots: Requests that a worker runs well side by side.
        max_waiting: Requests that may wait in the gateway for a worker.
    """

    slots: int = 8
    max_waiting: int = 1_024


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request that has no worker yet."""

    key: Key
    tried: frozenset[str]
    among: frozenset[str] | None = None
    event: anyio.Event = field(default_factory=anyio.Event)
    address: Address | None = None


class Pool:
    """Workers of one kind, all of which could run any model of theirs.

    Args:
        name: Of the pool.
        members: Says who there is.
        connections: Shared with nobody: for looks and wishes only.
        limits: Of this gateway.
        gateways: How many there are.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        name: str,
        members: Members,
        connections: Connections,
        limits: PoolLimits | None = None,
        *,
        gateways: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._limits = limits or PoolLimits()
        self._clock = clock
        self._connections = connections
        self.watch = Watch(members, connections, self.look_again)
        self.demand = Demand(gateways)
        self._ejections = Ejections()
        self._in_flight: Counter[str] = Counter()
        self._asked: dict[tuple[str, Key], float] = {}
        self._waiting: deque[_Waiter] = deque()
        self._wanted_s = -WANTED_S
        # This gateway's share of what waits elsewhere than here.
        self.queued = 0
        self._group: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Keep up with the workers until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self.watch.run)

    async def address(
        self,
        key: Key,
        tried: frozenset[str] = frozenset(),
        among: frozenset[str] | None = None,
    ) -> tuple[Address, Key]:
        """Return a worker for a request, and count the request as that worker's until `done`.

        The key comes back too: it may have been renamed meanwhile.

        Waits while there is none, as long as the caller likes: cancel it to give up.

        Args:
            key: What is asked for.
            tried: Base URLs of workers that failed this very request.
            among: Base URLs of the only workers that may get it.

        Raises:
            QueueFull: too many wait already.
            WorkerUnavailable: none of `among` is a worker of this pool.
        """
        self._wanted_s = self._clock()
        if tried >= self.watch.known.keys():
            tried = frozenset()  # Nobody else is left: one of them may have come back.
        if len(self._waiting) >= self._limits.max_waiting:
            raise QueueFull(
                f"{len(self._waiting)} requests wait for pool {self.name}, the limit is "
                f"{self._limits.max_waiting} (max_pool_waiting); call again",
                retry_after_s=1.0,
            )
        if among is not None and among.isdisjoint(self.watch.known):
            # Whoever named them will not name others while this request waits.
            raise WorkerUnavailable(f"pool {self.name} has none of the workers that were named")
        waiter = _Waiter(key, tried, among)
        self._waiting.append(waiter)
        self.look_again()
        try:
            await waiter.event.wait()
        except BaseException:
            self._give_up(waiter)
            raise
        assert waiter.address is not None
        return waiter.address, waiter.key

    def rename(self, asked: str, name: str) -> None:
        """Have requests that wait for a model wait for it by its one name."""
        for waiter in self._waiting:
            if waiter.key.model == asked:
                waiter.key = Key(name, waiter.key.lora)
        self.look_again()

    def done(self, address: Address, key: Key, *, is_lost: bool) -> None:
        """Hear that a request has ended, and whether its worker failed to answer."""
        name = address.base_url
        self._in_flight[name] -= 1
        self._asked.pop((name, key), None)
        self.demand.end(key, self._clock())
        if is_lost:
            self._ejections.failed(name, self._clock())
        else:
            self._ejections.answered(name)
            if key.model and (known := self.watch.known.get(name)) is not None:
                known.has_loaded(key)
        self.look_again()

    def has(self, address: Address) -> bool:
        """Whether a request was given to this worker of the pool."""
        return address.base_url in self.watch.known or address.base_url in self._in_flight

    @property
    def has_room(self) -> bool:
        """Whether a worker is ready and nobody waits for one: another pool need not help."""
        return not self._waiting and any(one.is_ready for one in self.watch.known.values())

    @property
    def num_wanted(self) -> int:
        """Return what a scaler sizes the pool by: requests that run or wait.

        At least one for a while after the last one came: a pool that is still at zero must be
        seen to be wanted, by whoever looks only now and then.
        """
        present = self.queued + len(self._waiting) + sum(self._in_flight.values())
        return max(present, int(self._clock() - self._wanted_s < WANTED_S))

    @property
    def num_waiting(self) -> int:
        """Return how many requests have no worker yet."""
        return len(self._waiting)

    def look_again(self) -> None:
        """Offer those that wait to the workers, in order; a key whose workers are full once."""
        self._tidy()
        waiting, self._waiting = self._waiting, deque()
        without: set[tuple[Key, frozenset[str], frozenset[str] | None]] = set()
        seen = self.seen() if waiting else {}
        for waiter in waiting:
            like = (waiter.key, waiter.tried, waiter.among)
            if like in without or not self._offer(waiter, seen):
                without.add(like)
                self._waiting.append(waiter)
        self._report()

    def next_best(
        self, address: Address, key: Key, among: frozenset[str] | None, count: int
    ) -> list[Address]:
        """Return who should get a request that a worker fails, best first, at most `count`."""
        seen = only(self.seen(), among)
        names = next_best(key, seen, address.base_url, count)
        return [self.watch.known[name].address for name in names]

    def _offer(self, waiter: _Waiter, seen: dict[str, Seen]) -> bool:
        seen = only(seen, waiter.among)
        choice = self._choose(waiter, seen)
        if choice.prefetch is not None:
            self._ask(choice.prefetch, waiter.key)
        if choice.worker is None:
            return False
        metrics.POOL_PICKS.labels(self.name, choice.kind).inc()
        if choice.kind == "cold":
            # Until it is seen to load, nobody else should have it load.
            self._asked[choice.worker, waiter.key] = self._clock()
        self._in_flight[choice.worker] += 1
        seen[choice.worker].in_flight += 1
        self.demand.begin(waiter.key, self._clock())
        waiter.address = self.watch.known[choice.worker].address
        waiter.event.set()
        return True

    def _choose(self, waiter: _Waiter, seen: dict[str, Seen]) -> Choice:
        if not waiter.key.model:
            least = min(seen.values(), key=lambda one: one.in_flight, default=None)
            return Choice(least.name if least else None)
        slots = self._limits.slots
        copies = self.demand.copies(waiter.key, slots, max(len(seen), 1), self._clock())
        asked: dict[str, set[Key]] = {}
        for name, key in self._asked:
            asked.setdefault(name, set()).add(key)
        return pick(waiter.key, seen, copies, tried=waiter.tried, fetching=Fetching(asked))

    def seen(self) -> dict[str, Seen]:
        """Return workers that answer and do not stand aside."""
        known = self.watch.known
        away = self._ejections.away(known, self._clock())
        return {
            name: Seen(
                name, self._limits.slots, self._in_flight[name], one.resident, one.nearby,
                one.loading, one.room, one.idle_s,
            )
            for name, one in known.items()
            if one.is_ready and name not in away
        }  # fmt: skip

    def _give_up(self, waiter: _Waiter) -> None:
        """Forget a request whose caller left, before or just as it got a worker."""
        with suppress(ValueError):
            self._waiting.remove(waiter)
        if waiter.address is not None:
            self.done(waiter.address, waiter.key, is_lost=False)

    def _tidy(self) -> None:
        """Forget workers that left, and wishes that are seen or old."""
        known, now_s = self.watch.known, self._clock()
        self._ejections.keep(known)
        self._in_flight = Counter({n: c for n, c in self._in_flight.items() if c or n in known})
        self._asked = {
            (name, key): at_s
            for (name, key), at_s in self._asked.items()
            if name in known
            and now_s - at_s < ASKED_S
            and key not in known[name].resident
            and key not in known[name].loading
        }

    def _ask(self, name: str, key: Key) -> None:
        """Have a worker fetch a model beside what it does; nobody waits for it."""
        if self._group is None:
            return
        self._asked[name, key] = self._clock()
        self._group.start_soon(self._fetch, self.watch.known[name].address, key)

    async def _fetch(self, address: Address, key: Key) -> None:
        client = self._connections.to(address)
        path = f"/v1/models/{quote(key.model, safe='')}/load"
        try:
            answer = await client.post(path, json={}, timeout=PREFETCH_TIMEOUT_S)
            outcome = "asked" if answer.status_code < 400 else "refused"
        except httpx2.RequestError:
            outcome = "unreachable"
        metrics.POOL_PREFETCHES.labels(self.name, outcome).inc()

    def _report(self) -> None:
        ready = sum(one.is_ready for one in self.watch.known.values())
        metrics.POOL_DEMAND.labels(self.name).set(self.num_wanted)
        metrics.POOL_WAITING.labels(self.name).set(len(self._waiting))
        metrics.POOL_WORKERS.labels(self.name, "known").set(len(self.watch.known))
        metrics.POOL_WORKERS.labels(self.name, "ready").set(ready)
