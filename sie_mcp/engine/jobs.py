"""A request's sequences on their way through the device, and how the request hears of them.

Knows no queue and no device. Results come from the device thread; the request waits on its loop.
"""

import asyncio
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
    tickets: list[Ticket["Place"]] = field(default_factory=list)
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


@dataclass(slots=True)
class Place:
    """One sequence of a job."""

    job: Job
    index: int

    @property
    def sequence(self) -> Sequence:
        """The sequence itself."""
        return self.job.sequences[self.index]

    @property
    def order(self) -> tuple[int, int]:
        """Where it stands in a batch: adapters each in one piece, then the longest first."""
        sequence = self.sequence
        return (0 if sequence.lora is None else id(sequence.lora), -sequence.num_tokens)

    def settle(self, result: Result) -> None:
        """Give the sequence its result; the job's last one wakes the request."""
        self.job.results[self.index] = result
        self.job.missing -= 1
        if self.job.missing == 0:
            self.job.wake(None)


def batch_span(places: list[Place], device: str) -> AbstractContextManager[object]:
    """Return the span of a batch, which belongs to several requests; nothing without tracing."""
    if not tracing.is_on():
        return nullcontext()
    links = {id(one.job): one.job.trace for one in places if one.job.trace is not None}
    return tracing.span(
        "batch",
        links=list(links.values()),
        device=device,
        model=places[0].job.adapter.card.name,
        sequences=len(places),
        tokens=sum(one.sequence.num_tokens for one in places),
    )


def _finish(done: asyncio.Future[None], error: SieError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
