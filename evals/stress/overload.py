"""Overload: three times what the worker can do, offered by callers that do not wait.

Capacity is measured first, with callers that do. What cannot be served must be refused at once and
told when to come back, and what is served must be as much as ever.
"""

import asyncio
import functools
import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from evals.stress.calls import OK, Caller, Outcome
from evals.stress.load import closed, opened
from evals.stress.models import Shape, make
from evals.stress.options import Options
from evals.stress.report import Claimed, Report, quantiles
from evals.stress.traffic import Job, Sizes, jobs
from evals.stress.worker import Sample, watch, working

SECONDS, CLIENTS, TIMES = 120.0, 64, 3.0
# Work that may wait, in seconds of capacity: short of the callers' patience.
QUEUE_S, TINY_QUEUE_TOKENS = 2.0, 10_000
# Of the open phase the first part is not counted: nothing is refused before the queue is full.
WARM_SHARE = 0.25
PATIENCE_S = 30.0
MADE_BEFORE = 256
LONG_S = 60.0
REFUSALS = {429, 503}
MIN_GOODPUT, MAX_REFUSAL_S, MAX_GROWTH = 0.9, 0.1, 1.05


async def run(options: Options) -> Report:
    """Measure capacity, then offer more."""
    seconds = options.seconds or SECONDS
    shape, sizes = _load(options)
    model = make(shape, options.work / "model", dtype=options.dtype)
    calm_s = min(max(seconds / 4, 1.0), 30.0)
    num_clients = options.clients or (CLIENTS if options.gpu else 16)
    peak, queue_tokens = 0.0, TINY_QUEUE_TOKENS
    if not options.tiny:
        peak, tokens_each = await _capacity(options, model, sizes, calm_s, num_clients)
        # A request is queued whole; fewer than the callers of the calm phase would be no queue.
        queue_tokens = int(tokens_each * max(peak * QUEUE_S, num_clients))
    settings = _worker(options, max_queue_tokens=queue_tokens)
    samples: list[Sample] = []
    async with (
        working(options.work, settings) as worker,
        Caller(worker.url, patience_s=PATIENCE_S, load_wait_s=60) as caller,
    ):
        # The load and what is imported for it are no part of what the worker can do.
        await _closed(caller, model, sizes, min(calm_s / 2, 5.0), num_clients, "first")
        before = await _closed(caller, model, sizes, calm_s, num_clients, "before")
        watching = asyncio.create_task(
            watch(worker, samples, every_s=min(seconds / 20, 2.0), device=options.gpu)
        )
        offered = TIMES * max(before, peak)
        outcomes, late_s = await opened(
            caller.call,
            _made_before(jobs([model], sizes, f"{options.seed}/open")),
            rate=offered,
            seconds=seconds,
            seed=f"{options.seed}/times",
        )
        watching.cancel()
        after = await _closed(caller, model, sizes, calm_s, num_clients, "after")
    return _report(
        outcomes, late_s, samples, seconds, before,
        {"model": asdict(shape), "items": sizes.items, "words": sizes.words, "seconds": seconds,
         "offered_per_s": round(offered, 1), "clients_when_calm": num_clients,
         "worker": settings, "calm_after_per_s": round(after, 1)},
    )  # fmt: skip


def _made_before(drawn: Iterator[Job]) -> Iterator[Job]:
    """Return some jobs again and again: whoever sends so many has no time to draw them."""
    some = list(itertools.islice(drawn, MADE_BEFORE))
    for job in some:
        assert job.content
    return itertools.cycle(some)


def _load(options: Options) -> tuple[Shape, Sizes]:
    """Requests heavy enough that the model, not the sender, is what is short."""
    if options.tiny:
        return Shape("small", layers=2, hidden=128), Sizes((8, 8), (100, 200))
    if options.gpu:
        return Shape("large", layers=24, hidden=1024, vocabulary=30_522), Sizes((16, 48), (20, 300))
    return Shape("small", layers=3, hidden=256, vocabulary=30_522), Sizes((4, 12), (20, 200))


def _worker(options: Options, **own: object) -> dict[str, object]:
    """On a CPU leave a core to the callers and to those who are refused."""
    return options.worker(**own) if options.gpu else options.worker(num_threads=1, **own)


async def _capacity(
    options: Options, model: Any, sizes: Sizes, seconds: float, num_clients: int
) -> tuple[float, float]:
    """Return requests a second with callers that wait, and the tokens of one."""
    async with (
        working(options.work, _worker(options)) as worker,
        Caller(worker.url, patience_s=PATIENCE_S, load_wait_s=60) as caller,
    ):
        await _closed(caller, model, sizes, min(seconds / 2, 5.0), num_clients, "warm")
        before = await worker.metric("sie_tokens_total")
        clients = [jobs([model], sizes, f"capacity/{one}") for one in range(num_clients)]
        outcomes = await closed(caller.call, clients, seconds=seconds)
        tokens = await worker.metric("sie_tokens_total") - before
    return _per_s_in_all(outcomes), tokens / max(len(outcomes), 1)


async def _closed(
    caller: Caller, model: Any, sizes: Sizes, seconds: float, num_clients: int, name: str
) -> float:
    clients = [jobs([model], sizes, f"{name}/{one}") for one in range(num_clients)]
    return _per_s_in_all(await closed(caller.call, clients, seconds=seconds))


def _per_s_in_all(outcomes: Sequence[Outcome]) -> float:
    """Return right answers a second until the last: callers that wait are answered in batches."""
    begun_s = min(one.at_s for one in outcomes)
    ended_s = max(one.at_s + one.seconds for one in outcomes)
    return sum(one.code == OK for one in outcomes) / (ended_s - begun_s)


def _per_s(outcomes: Sequence[Outcome], seconds: float) -> float:
    """Return right answers a second, from when the queue has filled until the sending ended."""
    begun_s = min(one.at_s for one in outcomes)
    times = [one.at_s + one.seconds - begun_s for one in outcomes if one.code == OK]
    filled_s = WARM_SHARE * seconds
    return sum(filled_s < time <= seconds for time in times) / (seconds - filled_s)


def _report(
    outcomes: Sequence[Outcome],
    late_s: Sequence[float],
    samples: Sequence[Sample],
    seconds: float,
    peak: float,
    settings: dict[str, Any],
) -> Report:
    goodput = _per_s(outcomes, seconds)
    refused = [one for one in outcomes if one.status in REFUSALS]
    others = [one for one in outcomes if one.code != OK and one.status not in REFUSALS]
    claimed = Claimed()
    claimed.at_least(
        f"goodput over the {peak:.1f}/s of callers that wait",
        goodput / peak,
        MIN_GOODPUT,
        is_speed=True,
    )
    claimed.at_least("refused requests", len(refused), 1)
    slowest = quantiles(one.seconds for one in refused)
    refusal_ms = slowest["p99_ms"] or 0.0
    claimed.at_most("p99 of a refusal, ms", refusal_ms, MAX_REFUSAL_S * 1000, is_speed=True)
    claimed.none("refusal without Retry-After", [one for one in refused if not one.retry_after])
    claimed.none("answer that is neither right nor a refusal", others)
    for name in ("rss_bytes", "device_bytes"):
        read = functools.partial(_read, name)
        _flat(claimed, name, list(map(read, samples)), is_long=seconds >= LONG_S)
    rows = [
        {"answer": "right", "requests": len(outcomes) - len(refused) - len(others)}
        | quantiles(one.seconds for one in outcomes if one.code == OK),
        {"answer": "refused", "requests": len(refused)} | slowest,
        {"answer": "sent late by", "requests": len(late_s)} | quantiles(late_s),
    ]
    told = [float(one.retry_after) for one in refused if one.retry_after]
    settings |= {"peak_per_s": round(peak, 2), "goodput_per_s": round(goodput, 2)}
    settings |= {"median_retry_after_s": statistics.median(told) if told else None}
    return Report(settings, rows, claimed.claims, [asdict(one) for one in samples])


def _read(name: str, sample: Sample) -> int | None:
    value: int | None = getattr(sample, name)
    return value


def _flat(claimed: Claimed, name: str, found: Sequence[int | None], *, is_long: bool) -> None:
    """Compare the last quarter with the second, when the queue has long been full.

    For some time the C library keeps more and more of what is freed, which is no leak.
    """
    sizes = [value for value in found if value is not None]
    quarter = len(sizes) // 4
    if quarter:
        growth = max(sizes[-quarter:]) / max(sizes[quarter : 2 * quarter])
        claim = f"{name} in the last quarter over the second"
        claimed.at_most(claim, growth, MAX_GROWTH, is_speed=not is_long)
