"""Which worker gets a request: one that should own the model and has it. Pure.

Owners are the first workers in the model's own order, as many as its demand asks for. A request
goes to an owner that has the model already, and waits for no other: further copies are fetched
beside it. A worker that would have to evict what was used a moment ago is passed over for the next
in the order: one that owns too many would else load for ever. evals/cluster_sim.py compares this
with other rules.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sie_mcp.gateway.pool.keys import Key, owners_of, ranked

# A worker with this many times its slots has a queue of its own; more wait in the gateway, where
# they can still go to whoever is free first.
MAX_FILL = 2.0
# What was used within this time is being used: it is evicted for another model only if all are so.
SPARE_S = 10.0
# A former owner helps while it still has the model; more of them would never fall out of use.
EXTRA_HOLDERS = 1
# A worker that is asked for so many models at once leaves the next ones to others that have
# nothing to fetch: of models that nobody has loaded yet, nobody knows how many fit.
LOADS_ABREAST = 2

# resident: some have it; loading: one is fetching it; cold: the one chosen has to.
Kind = Literal["resident", "loading", "cold"]


@dataclass(slots=True)
class Seen:
    """A worker as far as a gateway knows.

    Attributes:
        slots: Requests that it runs well side by side.
        in_flight: Requests that it has.
        resident: What is on its device.
        nearby: What is in its host memory, milliseconds away.
        loading: What it is fetching.
        room: How many models more it has memory for.
        idle_s: For how long what it would evict, where there is no room, has not been used.
    """

    name: str
    slots: int = 8
    in_flight: int = 0
    resident: Collection[Key] = ()
    nearby: Collection[Key] = ()
    loading: Collection[Key] = ()
    room: float = math.inf
    idle_s: float = 0.0

    @property
    def fill(self) -> float:
        """How full it is; 1: as many requests as slots."""
        return self.in_flight / max(self.slots, 1)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a request goes.

    Attributes:
        worker: Who gets it; None: it waits, for those that have the model are full, or until it
            has come.
        kind: How workers have the model.
        prefetch: Who should fetch the model beside it, if anybody.
    """

    worker: str | None
    kind: Kind = "resident"
    prefetch: str | None = None


@dataclass(slots=True)
class Fetching:
    """Loads that this gateway has asked for and not seen yet, by worker."""

    asked: dict[str, set[Key]] = field(default_factory=dict)

    def count(self, worker: Seen) -> int:
        """Return how many models a worker has to fetch."""
        return len(worker.loading) + self._num_unseen(worker)

    def spare_s(self, worker: Seen) -> float:
        """Return how long what one more model would evict has not been used; infinite: nothing."""
        return math.inf if worker.room >= self._num_unseen(worker) + 1 else worker.idle_s

    def _num_unseen(self, worker: Seen) -> int:
        return len(self.asked.get(worker.name, ()))


def pick(
    key: Key,
    workers: Mapping[str, Seen],
    copies: int,
    *,
    tried: Collection[str] = (),
    fetching: Fetching | None = None,
) -> Choice:
    """Choose a worker for a request.

    Args:
        key: What it asks for.
        workers: Those that are ready, by name; not those that stand aside.
        copies: How many should have the model.
        tried: Workers that failed this very request.
        fetching: What was asked of them before.
    """
    fetching = fetching or Fetching()
    names = tuple(sorted(workers))
    order = ranked(key.model, names)
    owners = [workers[name] for name in owners_of(key, names, copies)]
    usable = [workers[name] for name in order if name not in tried]
    holders = [one for one in usable if key in one.resident]
    if holders:
        worker = _least_full(holders[: copies + EXTRA_HOLDERS])
        # Also of a model that is not hot itself, where those that have it are full of others.
        is_wanted = worker is None or len(holders) < copies
        prefetch = _next_copy(key, [*owners, *usable], tried, fetching) if is_wanted else None
        return Choice(worker, "resident", prefetch)
    if any(_is_coming(key, one, fetching) for one in usable):
        # Waiting here, it takes no slot of a worker that others could use meanwhile.
        return Choice(None, "loading")
    return Choice(_cold(key, owners, usable, fetching), "cold")


def only(seen: dict[str, Seen], among: frozenset[str] | None) -> dict[str, Seen]:
    """Leave those that may get a request; None: all."""
    return seen if among is None else {name: seen[name] for name in seen.keys() & among}


def next_best(key: Key, workers: Mapping[str, Seen], first: str, count: int) -> tuple[str, ...]:
    """Return who should get a request that the first one fails: those that have the model first.

    Args:
        key: What it asks for.
        workers: Those that are ready, by name.
        first: Who was chosen.
        count: At most so many.
    """
    order = [name for name in ranked(key.model, tuple(sorted(workers))) if name != first]
    order.sort(key=lambda name: (key not in workers[name].resident, workers[name].fill >= MAX_FILL))
    return tuple(order[:count])


def _least_full(holders: Sequence[Seen]) -> str | None:
    best = min(holders, key=lambda one: one.fill)
    return best.name if best.fill < MAX_FILL else None


def _next_copy(
    key: Key, owners: Sequence[Seen], tried: Collection[str], fetching: Fetching
) -> str | None:
    """Return the first without the model that could fetch it now and has something to spare."""
    for one in owners:
        if key in one.resident or one.name in tried:
            continue
        if _is_coming(key, one, fetching):
            return None
        is_free = not fetching.count(one) and one.fill < MAX_FILL
        if is_free and fetching.spare_s(one) >= SPARE_S:
            return one.name
    return None


def _is_coming(key: Key, worker: Seen, fetching: Fetching) -> bool:
    return key in worker.loading or key in fetching.asked.get(worker.name, ())


def _cold(
    key: Key, owners: Sequence[Seen], usable: Sequence[Seen], fetching: Fetching
) -> str | None:
    """Return an owner that has it in host memory, else the first worker with something to spare."""
    owned = {one.name for one in owners}
    nearby = [one for one in usable if one.name in owned and key in one.nearby]
    spare = [one for one in nearby or usable if fetching.spare_s(one) >= SPARE_S]
    if spare:
        return min(spare, key=lambda one: fetching.count(one) // LOADS_ABREAST).name
    return max(usable, key=fetching.spare_s).name if usable else None
