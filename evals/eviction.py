"""Eviction policies on traces: seconds spent loading and bytes moved, under a virtual clock.

Run `python -m evals.eviction` (seconds; no model, no device). The ledger is the engine's own,
tenure included; one request runs at a time.
"""

import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from sie_mcp.engine.eviction import EvictionName, make_policy
from sie_mcp.engine.memory import Ledger

RESULTS = Path(__file__).parent / "results"
SEEDS = 12
NUM_MODELS = 24
NUM_REQUESTS = 3_000
REQUESTS_PER_S = 4.0
# Half of our catalogue is between these, in MB, evenly on a logarithmic scale.
SMALLEST_MB, LARGEST_MB = 45, 1_300
SERVICE_S = 0.01
POLICIES: tuple[EvictionName, ...] = get_args(EvictionName)


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a trace."""

    name: str
    size_bytes: int
    load_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one policy did with one trace."""

    load_s: float
    moved_bytes: int
    loads: int
    mean_wait_s: float


def _from_host(size_bytes: int, _: random.Random) -> float:
    """Copy from pinned memory: 25 GB/s and 3 ms."""
    return 0.003 + size_bytes / 25e9


def _from_disk(size_bytes: int, _: random.Random) -> float:
    """Read a checkpoint: 1.2 GB/s and 0.4 s for files, module and self-check."""
    return 0.4 + size_bytes / 1.2e9


def _from_anywhere(size_bytes: int, rng: random.Random) -> float:
    """Every third model from the host, others from disks between 0.1 and 2 GB/s."""
    if rng.random() < 1 / 3:
        return _from_host(size_bytes, rng)
    return 0.4 + size_bytes / (10 ** rng.uniform(8.0, 9.3))


LOADS: dict[str, Callable[[int, random.Random], float]] = {
    "host copies": _from_host,
    "disk": _from_disk,
    "mixed": _from_anywhere,
}
# After so many requests other models are the popular ones.
DRIFTS = {"steady": NUM_REQUESTS, "drifting": 600}
# The budget, as a part of all models' bytes.
BUDGETS = (0.25, 0.5)


def main() -> None:
    """Run every scene with every policy, print a table and record it."""
    started_s = time.perf_counter()
    rows = [row for scene in itertools.product(LOADS, DRIFTS, BUDGETS) for row in _rows(*scene)]
    _print(rows)
    record = {
        "command": "python -m evals.eviction",
        "seconds": round(time.perf_counter() - started_s, 1),
        "seeds": SEEDS,
        "models": NUM_MODELS,
        "requests": NUM_REQUESTS,
        "rows": rows,
    }
    (RESULTS / "eviction.json").write_text(json.dumps(record, indent=1) + "\n")


def _rows(loads: str, drift: str, budget: float) -> Iterator[dict[str, object]]:
    """Compare the policies on the same traces; medians, and in how many one beats the first."""
    outcomes = {
        policy: [_outcome(seed, loads, drift, budget, policy) for seed in range(SEEDS)]
        for policy in POLICIES
    }
    first = outcomes[POLICIES[0]]
    for policy, found in outcomes.items():
        ratios = [one.load_s / base.load_s for one, base in zip(found, first, strict=True)]
        columns = zip(*(asdict(one).values() for one in found), strict=True)
        medians = dict(
            zip(asdict(found[0]), (statistics.median(column) for column in columns), strict=True)
        )
        yield {
            "loads from": loads,
            "popularity": drift,
            "budget": budget,
            "policy": policy,
            **{name: round(value, 3) for name, value in medians.items()},
            "load_s_of_lru": round(statistics.median(ratios), 3),
            "better_seeds": sum(ratio < 1 for ratio in ratios),
        }


def _outcome(seed: int, loads: str, drift: str, budget: float, policy: EvictionName) -> Outcome:
    rng = random.Random(seed)
    models = _models(rng, LOADS[loads])
    total = int(budget * sum(one.size_bytes for one in models))
    ledger = Ledger(max(total, *(one.size_bytes for one in models)), policy=make_policy(policy))
    return replay(ledger, trace(rng, models, DRIFTS[drift]))


def _models(rng: random.Random, load_s: Callable[[int, random.Random], float]) -> list[Model]:
    sizes = [
        int(1e6 * SMALLEST_MB * (LARGEST_MB / SMALLEST_MB) ** rng.random())
        for _ in range(NUM_MODELS)
    ]
    return [Model(f"m{place}", size, load_s(size, rng)) for place, size in enumerate(sizes)]


def trace(
    rng: random.Random, models: list[Model], drift_after: int
) -> Iterator[tuple[float, Model]]:
    """Yield times and models: Poisson arrivals, popularity by Zipf's law, reshuffled at times."""
    weights = [1 / rank for rank in range(1, len(models) + 1)]
    ranked: list[Model] = []
    now_s = 0.0
    for number in range(NUM_REQUESTS):
        if number % drift_after == 0:
            ranked = rng.sample(models, len(models))
        now_s += rng.expovariate(REQUESTS_PER_S)
        yield now_s, rng.choices(ranked, weights)[0]


def replay(ledger: Ledger, requests: Iterator[tuple[float, Model]]) -> Outcome:
    """Serve requests one after the other, loading what is not there."""
    now_s = load_s = waited_s = 0.0
    moved = loads = count = 0
    for arrived_s, model in requests:
        now_s = max(now_s, arrived_s)
        count += 1
        if ledger.get(model.name) is None:
            now_s = _make_room(ledger, model, now_s) + model.load_s
            ledger.settle(model.name, model.size_bytes, model.load_s, now_s)
            load_s, moved, loads = load_s + model.load_s, moved + model.size_bytes, loads + 1
        ledger.use(model.name, now_s)
        now_s += SERVICE_S
        ledger.release(model.name, now_s)
        waited_s += now_s - arrived_s
    return Outcome(load_s, moved, loads, waited_s / count)


def _make_room(ledger: Ledger, model: Model, now_s: float) -> float:
    """Evict as the engine does and return when there was room."""
    while (room := ledger.find_room(model.size_bytes, now_s)).wait_s is not None:
        now_s += room.wait_s
    for victim in room.victims:
        ledger.remove(victim, is_victim=True)
    ledger.admit(model.name, model.size_bytes, now_s)
    return now_s


def _print(rows: list[dict[str, object]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
