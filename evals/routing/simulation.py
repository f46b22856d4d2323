"""One world under one rule, event by event: requests come, workers load and serve, models leave.

Workers hold the models used last, run some requests side by side, and need seconds to load a model.
Requests come at random, models by Zipf's law.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from evals.routing.cluster import Request, Worker, World, cluster_of
from evals.routing.rules import RULES
from sie_mcp.gateway.pool.keys import Key


class Simulation:
    """One world under one rule.

    Args:
        world: What is simulated.
        rule: One of `RULES`.
    """

    def __init__(self, world: World, rule: str) -> None:
        self._world = world
        self._rule = RULES[rule]
        self._cluster = cluster_of(world)
        self._rng = self._cluster.rng
        self._workers = self._cluster.workers
        self._gateways = self._cluster.gateways
        self._numbers = itertools.count()
        self._joined = itertools.count(world.workers)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
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
            self._cluster.now_s, _, what, about = heapq.heappop(self._events)
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
        if self._cluster.now_s < self._world.seconds:
            self._later(self._cluster.now_s + self._rng.expovariate(self._rate), self._arrive)
        (key,) = self._rng.choices(self._keys, cum_weights=self._weights)
        request = Request(key, self._cluster.now_s, self._rng.randrange(self._world.gateways))
        self._send(request)

    def _send(self, request: Request) -> bool:
        """Give a request to the worker that the rule names; False: it waits in its gateway."""
        routed = self._rule(self._cluster, request)
        if routed.prefetch is not None:
            self._load(self._workers[routed.prefetch], request.key)
        if routed.worker is None:
            self._gateways[request.gateway].waiting.append(request)
            return False
        worker = self._workers[routed.worker]
        worker.queue.append(request)
        self._start(worker)
        return True

    def _start(self, worker: Worker) -> None:
        """Run what can run; what lacks its model has it loaded, and waits aside."""
        passed: deque[Request] = deque()
        while worker.queue and worker.running < self._world.slots:
            request = worker.queue.popleft()
            if request.key in worker.held:
                worker.held[request.key] = self._cluster.now_s
                worker.held.move_to_end(request.key)
                worker.running += 1
                service_s = self._rng.expovariate(1 / self._world.service_s)
                self._later(self._cluster.now_s + service_s, self._done, worker, request)
            else:
                self._load(worker, request.key)
                passed.append(request)
        worker.queue.extendleft(reversed(passed))

    def _load(self, worker: Worker, key: Key) -> None:
        if key in worker.loading or key in worker.held:
            return
        self._loads += 1
        worker.loading.add(key)
        self._later(self._cluster.now_s + self._world.load_s, self._loaded, worker, key)

    def _loaded(self, worker: Worker, key: Key) -> None:
        worker.loading.discard(key)
        worker.held[key] = self._cluster.now_s
        if len(worker.held) > self._world.places:
            worker.held.popitem(last=False)
        self._start(worker)
        self._look_again()

    def _done(self, worker: Worker, request: Request) -> None:
        if request.is_counted:
            self._gateways[request.gateway].demand.end(request.key, self._cluster.now_s)
        if request.at_s > self._world.warm_s:
            self._waits.append(self._cluster.now_s - request.at_s)
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
