"""Soak: thousands of mixed requests of random lengths; what the worker takes must not grow.

A worker gives back what is free of its memory every few seconds: between two batches it has half as
much again or not. So it is compared at rest, when it has had time to: by medians of three, for what
a heap has left differs by a few per cent each time. What it takes under load is kept beside.
"""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from evals.stress.calls import OK, Caller, Outcome
from evals.stress.load import counted
from evals.stress.models import Kind, Shape, make
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, by_model
from evals.stress.traffic import Sizes, jobs
from evals.stress.worker import Sample, Worker, working

KINDS: tuple[Kind, ...] = ("dense", "cross_encoder", "token_classification")
REQUESTS, CLIENTS = 20_000, 8
# The worker rests after these shares of the requests: the first half of them, when it is warm, is
# compared with the others. Of few requests half are on the way to being warm.
RESTS, TINY_RESTS = (0.1, 0.125, 0.15, 0.95, 0.975, 1.0), (0.5, 1.0)
NUM_SAMPLES = 40
# Longer than a worker without work takes to give back: sie_mcp.engine.heap, and a heartbeat.
REST_S = 6.0
MAX_GROWTH = 1.05
# A connection or a pool's thread more or less is no leak.
MAX_MORE = 4


async def run(options: Options, kinds: tuple[Kind, ...] = KINDS) -> Report:
    """Send the requests, looking at the worker in between."""
    requests = options.requests or REQUESTS
    num_clients = options.clients or CLIENTS
    models = [
        make(Shape(kind, kind=kind), options.work / kind, dtype=options.dtype) for kind in kinds
    ]
    sizes = Sizes(items=(1, 1) if options.tiny else (1, 3), words=(1, 510))
    clients = [jobs(models, sizes, f"{options.seed}/{one}") for one in range(num_clients)]
    samples: dict[int, Sample] = {}
    every = max(requests // NUM_SAMPLES, 1)
    rests: list[Sample] = []
    async with (
        working(options.work, options.worker(memory_budget="1GiB", num_threads=1)) as worker,
        Caller(worker.url, patience_s=120, load_wait_s=60) as caller,
    ):

        def look(answered: int) -> None:
            if answered % every == 0:
                samples[answered] = worker.sample(device=options.gpu)

        outcomes: list[Outcome] = []
        for share in TINY_RESTS if options.tiny else RESTS:
            before = len(outcomes)
            outcomes += await counted(
                caller.call,
                clients,
                requests=int(requests * share) - before,
                heard=lambda answered, before=before: look(before + answered),
            )
            rests.append(await _at_rest(worker, options))
    claimed = Claimed()
    claimed.at_least("requests answered", len(outcomes), requests)
    claimed.none("failed request", [one for one in outcomes if one.code != OK])
    _compare(claimed, rests[: len(rests) // 2], rests[len(rests) // 2 :])
    settings = {"requests": requests, "clients": num_clients, "models": list(kinds)}
    settings |= _loaded_mb(list(samples.values()))
    kept = [{"answered": answered} | asdict(one) for answered, one in samples.items()]
    return Report(settings, by_model(outcomes), claimed.claims, kept)


async def _at_rest(worker: Worker, options: Options) -> Sample:
    """Look when the worker has had time to give back."""
    if not options.tiny:
        await asyncio.sleep(REST_S)
    return worker.sample(device=options.gpu)


def _compare(claimed: Claimed, early: Sequence[Sample], late: Sequence[Sample]) -> None:
    before, after = (statistics.median(one.rss_bytes for one in part) for part in (early, late))
    warm, last = early[0], late[-1]
    claimed.at_most(
        f"resident memory at the end over {before / 1e6:.0f} MB when warm, both at rest",
        after / before,
        MAX_GROWTH,
    )
    claimed.at_most("more descriptors than when warm", last.num_fds - warm.num_fds, MAX_MORE)
    claimed.at_most("more threads than when warm", last.num_threads - warm.num_threads, MAX_MORE)
    if warm.device_bytes is not None and last.device_bytes is not None:
        grown = last.device_bytes / warm.device_bytes
        claimed.at_most("device memory at the end over that when warm", grown, MAX_GROWTH)


def _loaded_mb(samples: Sequence[Sample]) -> dict[str, object]:
    """Return what the worker took under load: medians of quarters, for who reads the report."""
    size = max(len(samples) // 4, 1)
    parts = {"second": samples[size : 2 * size], "last": samples[-size:]}
    return {
        f"rss_mb_in_the_{name}_quarter": round(
            statistics.median(one.rss_bytes for one in part) / 1e6
        )
        for name, part in parts.items()
        if part
    }
