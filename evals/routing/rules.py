"""The rules that are compared: which worker a request goes to, and where its model is loaded ahead.

`owners` is the product's own picker; the others are what is common elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

from evals.routing.cluster import Cluster, Gateway, Request, Worker
from sie_mcp.gateway.pool.keys import Key, ranked
from sie_mcp.gateway.pool.picker import Seen, pick

# Of a bounded hash: a worker takes so much more than the mean, as elsewhere.
BOUND = 1.25


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a request goes.

    Attributes:
        worker: None: it waits in its gateway.
        prefetch: A worker that is to load the model for requests to come.
    """

    worker: str | None
    prefetch: str | None = None


Rule = Callable[[Cluster, Request], Routed]


def _round_robin(cluster: Cluster, _: Request) -> Routed:
    names = sorted(cluster.workers)
    return Routed(names[next(cluster.turns) % len(names)])


def _least(cluster: Cluster, _: Request) -> Routed:
    loads = ((one.in_flight, cluster.rng.random(), one.name) for one in cluster.workers.values())
    return Routed(min(loads)[2])


def _strict(cluster: Cluster, request: Request) -> Routed:
    return Routed(_order(cluster, request.key)[0])


def _bounded(cluster: Cluster, request: Request) -> Routed:
    total = sum(one.in_flight for one in cluster.workers.values()) + 1
    bound = max(BOUND * total / len(cluster.workers), 1)
    order = _order(cluster, request.key)
    room = (one for one in order if cluster.workers[one].in_flight < bound)
    return Routed(next(room, order[0]))


def _owners(cluster: Cluster, request: Request) -> Routed:
    gateway = cluster.gateways[request.gateway]
    seen = {name: _seen(cluster, gateway, worker) for name, worker in cluster.workers.items()}
    slots, most = cluster.world.slots, len(seen)
    copies = gateway.demand.copies(request.key, slots, most, cluster.now_s)
    choice = pick(request.key, seen, copies)
    if choice.kind == "resident" and choice.worker is not None:
        request.is_counted = True
        gateway.demand.begin(request.key, cluster.now_s)
    return Routed(choice.worker, choice.prefetch)


RULES: dict[str, Rule] = {
    "round robin": _round_robin,
    "least in flight": _least,
    "strict hash": _strict,
    "bounded hash": _bounded,
    "owners": _owners,
}


def _order(cluster: Cluster, key: Key) -> tuple[str, ...]:
    return ranked(key.model, tuple(sorted(cluster.workers)))


def _seen(cluster: Cluster, gateway: Gateway, worker: Worker) -> Seen:
    """Return a worker as the gateway knows it: residency as of its last look."""
    world, now_s = cluster.world, cluster.now_s
    if now_s - gateway.seen_at_s >= world.seen_every_s:
        gateway.seen_at_s = now_s
        gateway.seen = {one.name: tuple(one.held) for one in cluster.workers.values()}
    resident = worker.held if not world.seen_every_s else gateway.seen.get(worker.name, ())
    return Seen(
        worker.name, world.slots, worker.in_flight, resident,
        loading=set(worker.loading),
        room=world.places - len(worker.held) - len(worker.loading),
        idle_s=now_s - min(worker.held.values(), default=0.0),
    )  # fmt: skip
