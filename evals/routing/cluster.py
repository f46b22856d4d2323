"""A simulated cluster as it stands: workers, gateways and the time. Nothing moves here."""

import itertools
import random
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sie_mcp.gateway.pool.demand import Demand
from sie_mcp.gateway.pool.keys import Key


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated.

    Attributes:
        places: Models that a worker holds.
        load: Share of what all workers could run.
        seen_every_s: How old may be what a gateway knows of residency.
        joins, leaves: When a worker comes, and when one goes.
    """

    workers: int = 8
    slots: int = 4
    places: int = 10
    models: int = 40
    zipf: float = 1.0
    load: float = 0.6
    service_s: float = 0.02
    load_s: float = 3.0
    seconds: float = 120.0
    warm_s: float = 30.0
    gateways: int = 1
    seen_every_s: float = 0.0
    joins: tuple[float, ...] = ()
    leaves: tuple[float, ...] = ()
    seed: int = 1


@dataclass(slots=True)
class Request:
    """One request, and the gateway that has it."""

    key: Key
    at_s: float
    gateway: int
    is_counted: bool = False


@dataclass(slots=True)
class Worker:
    """A simulated worker."""

    name: str
    held: OrderedDict[Key, float] = field(default_factory=OrderedDict)
    loading: set[Key] = field(default_factory=set)
    queue: deque[Request] = field(default_factory=deque)
    running: int = 0
    served: int = 0

    @property
    def in_flight(self) -> int:
        """Requests that it has."""
        return self.running + len(self.queue)


@dataclass(slots=True)
class Gateway:
    """A simulated gateway: what it has counted, and who waits in it."""

    demand: Demand
    waiting: deque[Request] = field(default_factory=deque)
    seen_at_s: float = -1e9
    seen: dict[str, tuple[Key, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Cluster:
    """What a rule may look at. The simulation moves it."""

    world: World
    rng: random.Random
    workers: dict[str, Worker]
    gateways: list[Gateway]
    turns: Iterator[int] = field(default_factory=itertools.count)
    now_s: float = 0.0


def cluster_of(world: World) -> Cluster:
    """Return a cluster at rest."""
    return Cluster(
        world,
        random.Random(world.seed),
        workers={f"w{n}": Worker(f"w{n}") for n in range(world.workers)},
        gateways=[Gateway(Demand(world.gateways)) for _ in range(world.gateways)],
    )
