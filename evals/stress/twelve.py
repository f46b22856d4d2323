"""Twelve models, memory for four: the same traffic as with memory for all, in turns.

Both workers live side by side and take turns of a few seconds, so that what else the machine does
falls on both. Every caller's requests are the same in both arms.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from evals.stress.calls import OK, Caller, Outcome
from evals.stress.load import closed
from evals.stress.models import TWELVE, Model, make, small_twelve
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, by_model
from evals.stress.traffic import Job, Sizes, jobs, request
from evals.stress.worker import Worker, working_with

SECONDS = 300.0
TURN_S, CLIENTS = 15.0, 64
# Of the time under test: what it is measured against is a rate, and needs less.
REFERENCE_PART = 1 / 2
ZIPF = 1.0
MIN_GOODPUT = 0.7
PATIENCE_S = 120.0


@dataclass(slots=True)
class Arm:
    """One worker, its callers, and what they heard."""

    name: str
    worker: Worker
    caller: Caller
    clients: list[Any]
    outcomes: list[Outcome] = field(default_factory=list)
    busy_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def goodput(self) -> float:
        """Items with a result, a second."""
        return sum(one.num_items for one in self.outcomes) / self.busy_s


async def run(options: Options) -> Report:
    """Run both arms in turns."""
    models = _models(options)
    total = sum(one.size_bytes for one in models)
    usable = max(total * 4 // 12, max(one.size_bytes for one in models))
    seconds = options.seconds or SECONDS
    async with AsyncExitStack() as stack:
        few = await _arm(stack, options, "memory for four", models, usable)
        # Twice their size: what is corrected after a load must fit too.
        all_ = await _arm(stack, options, "memory for all", models, 2 * total)
        await asyncio.gather(*(_touch(arm, models) for arm in (few, all_)))
        num_turns = max(round(seconds / TURN_S), 2)
        for _ in range(num_turns):
            await _turn(few, seconds / num_turns)
            await _turn(all_, REFERENCE_PART * seconds / num_turns)
        memory = (await few.worker.models()).memory
    settings = {
        "seconds": {few.name: seconds, all_.name: round(REFERENCE_PART * seconds, 1)},
        "clients": len(few.clients),
        "zipf": ZIPF,
        "models_mb": {one.name: round(one.size_bytes / 1e6, 1) for one in models},
        "usable_mb": round(usable / 1e6, 1),
        "memory": memory,
        "counts": {arm.name: dict(arm.counts) for arm in (few, all_)},
        "items_per_s": {arm.name: round(arm.goodput, 1) for arm in (few, all_)},
    }
    rows = [{"arm": arm.name} | row for arm in (few, all_) for row in by_model(arm.outcomes)]
    return Report(settings, rows, _claims(few, all_))


def _claims(few: Arm, all_: Arm) -> list[Any]:
    claimed = Claimed()
    for arm in (few, all_):
        failed = [one for one in arm.outcomes if one.code != OK]
        claimed.none(f"failed request of {len(arm.outcomes)} with {arm.name}", failed)
    claimed.at_least("evictions with memory for four", few.counts["evictions"], 1)
    claimed.at_most("evictions with memory for all", all_.counts["evictions"], 0)
    share = few.goodput / all_.goodput
    claimed.at_least("goodput over that with memory for all", share, MIN_GOODPUT, is_speed=True)
    return claimed.claims


def _models(options: Options) -> list[Model]:
    shapes = TWELVE if options.gpu else small_twelve(hidden=64 if options.tiny else 256)
    return [
        make(shape, options.work / shape.name, dtype=options.dtype, seed=place)
        for place, shape in enumerate(shapes)
    ]


async def _arm(
    stack: AsyncExitStack, options: Options, name: str, models: Sequence[Model], usable: int
) -> Arm:
    folder = options.work / name.replace(" ", "-")
    folder.mkdir()
    settings = options.worker() if options.gpu else options.worker(num_threads=1)
    worker = await stack.enter_async_context(working_with(usable, folder, settings))
    caller = await stack.enter_async_context(
        Caller(worker.url, patience_s=PATIENCE_S, load_wait_s=PATIENCE_S)
    )
    sizes = Sizes((1, 16), (5, 120)) if options.gpu else Sizes((1, 8), (5, 60))
    num_clients = options.clients or CLIENTS
    clients = [
        jobs(models, sizes, f"{options.seed}/{one}", zipf=ZIPF) for one in range(num_clients)
    ]
    return Arm(name, worker, caller, clients)


async def _touch(arm: Arm, models: Sequence[Model]) -> None:
    """Ask every model once, so that neither arm is measured while it first reads a file."""
    for model in models:
        outcome = await arm.caller.call(Job(model, request(model, ["w1 w2"])))
        if outcome.code != OK:
            raise RuntimeError(f"{model.name} cannot be served at all: {outcome}")


async def _turn(arm: Arm, seconds: float) -> None:
    before = await _counts(arm.worker)
    outcomes = await closed(arm.caller.call, arm.clients, seconds=seconds)
    arm.counts.update(await _counts(arm.worker) - before)
    arm.outcomes += outcomes
    # Until the last answer: what was sent in the turn's last moment is work of this arm too.
    arm.busy_s += max(one.at_s + one.seconds for one in outcomes) - min(
        one.at_s for one in outcomes
    )


async def _counts(worker: Worker) -> Counter[str]:
    return Counter(
        {
            "loads": int(await worker.metric("sie_model_loads_total")),
            "evictions": int(await worker.metric("sie_model_evictions_total")),
        }
    )
