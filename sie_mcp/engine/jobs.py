"""A request's sequences on their way through the device, and how the request hears of them.

Knows no queue and no device. Results come from the device thread; the request waits on its loop.
"""

import asyncio
from collections.abc import Sequence as Series
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from sie_mcp import tracing
from sie_mcp.adapters.adapter import Adapter, Result, Sequence
from sie_mcp.engine.tickets import Ticket
from sie_mcp.errors import SieError


@dataclass(slots=True, eq=False)
class Job:
    """A request's sequences."""

    adapter: Adapter
    sequences: list[Sequence]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop
    results: list[Result | None] = field(init=False)
    missing: int = field(init=False)
    tickets: list[Ticket["Part"]] = field(default_factory=list)
    started_s: float | None = None
    # Of how many batches that run its sequences are part.
    num_running: int = 0
    # Done once the sequences of a request that was given up are off the device.
    left: asyncio.Future[None] | None = None
    # Where its request's span is, for those of the batches it is in; None without tracing.
    trace: object | None = field(default_factory=tracing.here)

    def __post_init__(self) -> None:
        self.results = [None] * len(self.sequences)
        self.missing = len(self.sequences)

    @property
    def is_running(self) -> bool:
        """Whether any of its sequences is on the device."""
        return self.num_running > 0

    def wake(self, error: SieError | None) -> None:
        """Let the request go on, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(_finish, self.done, error)

    def let_go(self) -> None:
        """Let a request end that was given up, from any thread; to others it is nothing."""
        if self.left is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(_finish, self.left, None)


@dataclass(frozen=True, slots=True)
class Part:
    """Sequences of a job that stand side by side in it, and run in one batch."""

    job: Job
    start: int
    end: int

    @property
    def sequences(self) -> list[Sequence]:
        """The sequences themselves."""
        return self.job.sequences[self.start : self.end]

    def settle(self, results: Series[Result]) -> None:
        """Give the sequences their results; the job's last ones wake the request."""
        self.job.results[self.start : self.end] = results
        self.job.missing -= len(results)
        if self.job.missing == 0:
            self.job.wake(None)


def parts_of(job: Job, num_tokens: Series[int], most_tokens: int, most: int) -> list[Part]:
    """Cut a job into parts of at most so many tokens and sequences, or of one sequence.

    Args:
        job: Which.
        num_tokens: Of each of its sequences.
        most_tokens: Of a part.
        most: Sequences of a part.
    """
    parts: list[Part] = []
    start = total = 0
    for end, tokens in enumerate(num_tokens):
        if end > start and (total + tokens > most_tokens or end - start >= most):
            parts.append(Part(job, start, end))
            start, total = end, 0
        total += tokens
    return [*parts, Part(job, start, len(num_tokens))]


def batch_span(parts: Series[Part], device: str) -> AbstractContextManager[object]:
    """Return the span of a batch, which belongs to several requests; nothing without tracing."""
    if not tracing.is_on():
        return nullcontext()
    links = {id(one.job): one.job.trace for one in parts if one.job.trace is not None}
    sequences = [sequence for part in parts for sequence in part.sequences]
    return tracing.span(
        "batch",
        links=list(links.values()),
        device=device,
        model=parts[0].job.adapter.card.name,
        sequences=len(sequences),
        tokens=sum(one.num_tokens for one in sequences),
    )


def _finish(done: asyncio.Future[None], error: SieError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
