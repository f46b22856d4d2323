"""Callers side by side: closed loops that wait for each answer, and an open one that does not.

Knows how requests are spaced; knows neither HTTP nor workers.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from evals.stress.calls import Outcome
from evals.stress.traffic import Job

Call = Callable[[Job], Awaitable[Outcome]]


async def closed(call: Call, clients: Sequence[Iterator[Job]], *, seconds: float) -> list[Outcome]:
    """Have every client send its next request when the last is answered, for some time."""
    ends_s = time.monotonic() + seconds
    outcomes: list[Outcome] = []

    async def run(jobs: Iterator[Job]) -> None:
        while time.monotonic() < ends_s:
            outcomes.append(await call(next(jobs)))

    await asyncio.gather(*(run(jobs) for jobs in clients))
    return outcomes


async def counted(
    call: Call,
    clients: Sequence[Iterator[Job]],
    *,
    requests: int,
    heard: Callable[[int], None] = lambda _: None,
) -> list[Outcome]:
    """The same until a number of requests is answered; `heard` is told how many are."""
    outcomes: list[Outcome] = []
    places = itertools.count()

    async def run(jobs: Iterator[Job]) -> None:
        while next(places) < requests:
            outcomes.append(await call(next(jobs)))
            heard(len(outcomes))

    await asyncio.gather(*(run(jobs) for jobs in clients))
    return outcomes


async def opened(
    call: Call, jobs: Iterator[Job], *, rate: float, seconds: float, seed: str
) -> tuple[list[Outcome], list[float]]:
    """Send at random moments, `rate` a second, whether or not answers come.

    Returns:
        The outcomes, and by how many seconds each was sent too late: large where the sender itself
        could not keep up.
    """
    rng = random.Random(seed)
    calls: list[asyncio.Future[Outcome]] = []
    late_s: list[float] = []
    begun_s = time.monotonic()
    due_s = begun_s
    while due_s < begun_s + seconds:
        await asyncio.sleep(max(due_s - time.monotonic(), 0.0))
        late_s.append(time.monotonic() - due_s)
        calls.append(asyncio.ensure_future(call(next(jobs))))
        due_s += rng.expovariate(rate)
    return list(await asyncio.gather(*calls)), late_s
