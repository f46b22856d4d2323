"""`python -m evals.cluster_sim`: routing rules compared on simulated workers; seconds, no network.

Workers hold the models used last, run some requests side by side, and need seconds to load a model.
Requests come at random, models by Zipf's law. `owners` is the product's own picker; the others are
what is common elsewhere. Keeps evals/results/cluster_sim.json and .md.
"""

import argparse
import heapq
import itertools
import json
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from sie_mcp.gateway.pool.demand import Demand
from sie_mcp.gateway.pool.keys import Key, ranked
from sie_mcp.gateway.pool.picker import Seen, pick

RESULTS = Path(__file__).parent / "results"
RULES = ("round robin", "least in flight", "strict hash", "bounded hash", "owners")
# Of a bounded hash: a worker takes so much more than the mean, as elsewhere.
BOUND = 1.25


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


WORLDS = {
    "steady": World(),
    "steeper (zipf 1.4)": World(zipf=1.4),
    "tight memory (6 of 40)": World(places=6, load=0.5),
    "one joins at 60 s, one leaves at 90 s": World(joins=(60.0,), leaves=(90.0,)),
    "three gateways, residency .5 s old": World(gateways=3, seen_every_s=0.5),
}


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


class Simulation:
    """One world under one rule.

    Args:
        world: What is simulated.
        rule: One of `RULES`.
    """

    def __init__(self, world: World, rule: str) -> None:
        self._world = world
        self._rng = random.Random(world.seed)
        self._rules: dict[str, Callable[[Request], str | None]] = {
            "round robin": self._round_robin,
            "least in flight": self._least,
            "strict hash": lambda request: self._order(request.key)[0],
            "bounded hash": self._bounded,
            "owners": self._owners,
        }
        self._rule = self._rules[rule]
        self._workers = {f"w{n}": Worker(f"w{n}") for n in range(world.workers)}
        self._gateways = [Gateway(Demand(world.gateways)) for _ in range(world.gateways)]
        self._numbers = itertools.count()
        self._turns = itertools.count()
        self._joined = itertools.count(world.workers)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._now_s = 0.0
        self._loads = 0
        self._waits: list[float] = []
        weights = [1 / (place + 1) ** world.zipf for place in range(world.models)]
        self._weights = list(itertools.accumulate(weights))
        self._keys = [Key(f"m{n}") for n in range(world.models)]
        self._rate = world.load * world.workers * world.slots / world.service_s

    def run(self) -> dict[str, float]:
        """Run to the end and return the figures."""
        self._later(self._rng.expovariate(self._rate), self._arrive)
        for at_s in self._world.joins:
            self._later(at_s, self._join)
        for at_s in self._world.leaves:
            self._later(at_s, self._leave)
        while self._events:
            self._now_s, _, what, about = heapq.heappop(self._events)
            what(*about)
        waits = sorted(self._waits)
        served = [worker.served for worker in self._workers.values()]
        return {
            "requests": len(waits),
            "loads": self._loads,
            "p50_ms": round(waits[len(waits) // 2] * 1e3, 1),
            "p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
            "max_ms": round(waits[-1] * 1e3, 1),
            "busiest_over_mean": round(max(served) * len(served) / sum(served), 2),
        }

    def _later(self, at_s: float, what: Callable[..., None], *about: Any) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), what, about))

    def _arrive(self) -> None:
        if self._now_s < self._world.seconds:
            self._later(self._now_s + self._rng.expovariate(self._rate), self._arrive)
        (key,) = self._rng.choices(self._keys, cum_weights=self._weights)
        request = Request(key, self._now_s, self._rng.randrange(self._world.gateways))
        self._send(request)

    def _send(self, request: Request) -> bool:
        """Give a request to the worker that the rule names; False: it waits in its gateway."""
        name = self._rule(request)
        if name is None:
            self._gateways[request.gateway].waiting.append(request)
            return False
        worker = self._workers[name]
        worker.queue.append(request)
        self._start(worker)
        return True

    def _start(self, worker: Worker) -> None:
        """Run what can run; what lacks its model has it loaded, and waits aside."""
        passed: deque[Request] = deque()
        while worker.queue and worker.running < self._world.slots:
            request = worker.queue.popleft()
            if request.key in worker.held:
                worker.held[request.key] = self._now_s
                worker.held.move_to_end(request.key)
                worker.running += 1
                service_s = self._rng.expovariate(1 / self._world.service_s)
                self._later(self._now_s + service_s, self._done, worker, request)
            else:
                self._load(worker, request.key)
                passed.append(request)
        worker.queue.extendleft(reversed(passed))

    def _load(self, worker: Worker, key: Key) -> None:
        if key in worker.loading or key in worker.held:
            return
        self._loads += 1
        worker.loading.add(key)
        self._later(self._now_s + self._world.load_s, self._loaded, worker, key)

    def _loaded(self, worker: Worker, key: Key) -> None:
        worker.loading.discard(key)
        worker.held[key] = self._now_s
        if len(worker.held) > self._world.places:
            worker.held.popitem(last=False)
        self._start(worker)
        self._look_again()

    def _done(self, worker: Worker, request: Request) -> None:
        if request.is_counted:
            self._gateways[request.gateway].demand.end(request.key, self._now_s)
        if request.at_s > self._world.warm_s:
            self._waits.append(self._now_s - request.at_s)
        worker.running -= 1
        worker.served += 1
        if worker.name in self._workers:
            self._start(worker)
        self._look_again()

    def _look_again(self) -> None:
        """Offer those that wait to the workers again, in order, a model at a time."""
        for gateway in self._gateways:
            waiting, gateway.waiting = gateway.waiting, deque()
            full: set[Key] = set()
            for request in waiting:
                if request.key in full:
                    gateway.waiting.append(request)
                elif not self._send(request):
                    full.add(request.key)

    def _join(self) -> None:
        name = f"w{next(self._joined)}"
        self._workers[name] = Worker(name)

    def _leave(self) -> None:
        """Let a worker go: what it runs it finishes, what waits in it goes elsewhere."""
        worker = self._workers.pop(max(self._workers))
        waiting, worker.queue = worker.queue, deque()
        for request in waiting:
            self._send(request)

    def _order(self, key: Key) -> tuple[str, ...]:
        return ranked(key.model, tuple(sorted(self._workers)))

    def _round_robin(self, _: Request) -> str:
        names = sorted(self._workers)
        return names[next(self._turns) % len(names)]

    def _least(self, _: Request) -> str:
        loads = ((one.in_flight, self._rng.random(), one.name) for one in self._workers.values())
        return min(loads)[2]

    def _bounded(self, request: Request) -> str:
        total = sum(one.in_flight for one in self._workers.values()) + 1
        bound = max(BOUND * total / len(self._workers), 1)
        order = self._order(request.key)
        return next((one for one in order if self._workers[one].in_flight < bound), order[0])

    def _owners(self, request: Request) -> str | None:
        gateway = self._gateways[request.gateway]
        seen = {name: self._seen(gateway, worker) for name, worker in self._workers.items()}
        slots, most = self._world.slots, len(seen)
        copies = gateway.demand.copies(request.key, slots, most, self._now_s)
        choice = pick(request.key, seen, copies)
        if choice.kind == "resident" and choice.worker is not None:
            request.is_counted = True
            gateway.demand.begin(request.key, self._now_s)
        if choice.prefetch is not None:
            self._load(self._workers[choice.prefetch], request.key)
        return choice.worker

    def _seen(self, gateway: Gateway, worker: Worker) -> Seen:
        """Return a worker as the gateway knows it: residency as of its last look."""
        if self._now_s - gateway.seen_at_s >= self._world.seen_every_s:
            gateway.seen_at_s = self._now_s
            gateway.seen = {one.name: tuple(one.held) for one in self._workers.values()}
        resident = (
            worker.held if not self._world.seen_every_s else gateway.seen.get(worker.name, ())
        )
        return Seen(
            worker.name, self._world.slots, worker.in_flight, resident,
            loading=set(worker.loading),
            room=self._world.places - len(worker.held) - len(worker.loading),
            idle_s=self._now_s - min(worker.held.values(), default=0.0),
        )  # fmt: skip


def main() -> None:
    """Run all worlds under all rules, print, and keep."""
    parser = argparse.ArgumentParser(prog="python -m evals.cluster_sim", description=__doc__)
    parser.add_argument("--rule", choices=RULES, action="append", help="only this one")
    given = parser.parse_args()
    rows = []
    for name, world in WORLDS.items():
        for rule in given.rule or RULES:
            started_s = time.perf_counter()
            figures = Simulation(world, rule).run()
            rows.append({"world": name, "rule": rule, **figures})
            print(name, rule, figures, f"{time.perf_counter() - started_s:.1f} s", flush=True)
    if given.rule is None:
        _keep(rows)


def _keep(rows: list[dict[str, Any]]) -> None:
    settings = {"command": "python -m evals.cluster_sim", "world": repr(World())}
    text = json.dumps({**settings, "rows": rows}, indent=1)
    (RESULTS / "cluster_sim.json").write_text(text + "\n")
    names = list(rows[0])
    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    lines += [" | ".join(str(row[name]) for name in names) for row in rows]
    table = "\n".join(f"| {line} |" for line in lines)
    page = f"# Routing rules\n\n`{settings['command']}`: `{settings['world']}`\n\n{table}\n"
    (RESULTS / "cluster_sim.md").write_text(page)
    Console(width=120).print(Markdown(page))


if __name__ == "__main__":
    main()
