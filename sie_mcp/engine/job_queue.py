"""Requests' jobs between the event loops that bring them and the device thread that takes them.

Owns the lock around the scheduler, and who is waiting. Knows no device and runs nothing.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from sie_mcp import metrics
from sie_mcp.engine.jobs import Job, Part, parts_of
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.tickets import PRIORITIES, Terms, Ticket
from sie_mcp.errors import (
    DeadlineExceeded,
    QueueFull,
    RateLimited,
    WorkerLost,
    WorkerUnavailable,
)

T = TypeVar("T")

# Short sequences of a request share a place in the queue, up to this part of a batch: the queue
# takes as long for each place as the device for a few tokens.
PART_SHARE = 1 / 32


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known of models' batches, as the scheduler takes it."""

    learned_tokens: Mapping[str, int]
    measured_tokens: Mapping[str, int] | None


class JobQueue:
    """The jobs of one device, from any thread.

    Args:
        scheduler: The queue itself; touched under this object's lock only.
        device_name: Tells its figures from those of other devices.
    """

    def __init__(self, scheduler: Scheduler[Part], device_name: str) -> None:
        # Why no batch will ever run again; None while all is well.
        self.failure: str | None = None
        # Whether a batch runs.
        self.is_busy = False
        self._scheduler = scheduler
        self._changed = threading.Condition()
        self._is_stopping = False
        self._jobs: set[Job] = set()
        self._sizes = Sizes({}, None)
        self._token_gauges = [
            (priority, metrics.QUEUE_TOKENS.labels(priority, device_name))
            for priority in PRIORITIES
        ]
        self._sequence_gauge = metrics.QUEUE_SEQUENCES.labels(device_name)

    @property
    def max_batch_tokens(self) -> int:
        """Tokens of one forward pass, at most."""
        return self._scheduler.max_batch_tokens

    @property
    def tokens(self) -> int:
        """Tokens that wait."""
        return self._scheduler.queue_tokens

    @property
    def wait_s(self) -> float:
        """How long what waits will take, at the speed of late; 0 before anything has run."""
        with self._changed:
            return self._scheduler.wait_s

    def waiting_tokens(self, model: str) -> int:
        """Return how many tokens wait for a model."""
        with self._changed:
            return self._scheduler.waiting_tokens(model)

    def note_speed(self, model: str, tokens: int, seconds: float) -> None:
        """Hear how long a batch took."""
        with self._changed:
            self._scheduler.note_speed(model, tokens, seconds)

    def check_room(self, num_tokens: int, num_sequences: int, terms: Terms) -> None:
        """Refuse what will be refused.

        Raises:
            QueueFull, RateLimited: too much is waiting.
        """
        with self._changed:
            _counted(lambda: self._scheduler.check_room(num_tokens, num_sequences, terms))

    @contextmanager
    def expecting(self, num_tokens: int, num_sequences: int, terms: Terms) -> Iterator[None]:
        """Keep room for a request that is being made ready, about so large.

        Raises:
            QueueFull, RateLimited: too much is waiting.
        """
        kept = ExitStack()
        with self._changed:
            _counted(
                lambda: kept.enter_context(
                    self._scheduler.expecting(num_tokens, num_sequences, terms)
                )
            )
        try:
            yield
        finally:
            with self._changed:
                kept.close()

    async def run(self, name: str, job: Job, terms: Terms) -> float:
        """Have a job run to its end, and return how long it waited before, in seconds.

        Cancelling drops what has not started, and waits for the batch that runs: its model must
        not leave under it.

        Raises:
            QueueFull, RateLimited: too much is waiting.
            DeadlineExceeded: the deadline passed before all had started.
            WorkerUnavailable: the worker stops or has lost its device.
        """
        submitted_s = time.monotonic()
        self._submit(name, job, submitted_s, terms)
        try:
            await job.done
        except asyncio.CancelledError:
            self._give_up(job)
            raise
        finally:
            await self._until_off(job)
        return (job.started_s or submitted_s) - submitted_s

    def take(
        self, sizes: Callable[[], Sizes], *, has_running: bool, patience_s: float
    ) -> list[Part] | None:
        """Take the next batch, for the device thread; None: there will be none any more.

        Args:
            sizes: Asked under the lock: what was known before a job came holds for its batch.
            has_running: Whether a batch runs already; else the wait is for work.
            patience_s: The longest wait for work; then the batch is empty.
        """
        with self._changed:
            if self._is_stopping or self.failure is not None:
                return None
            self._sizes = sizes()
            batch = self._next_batch(self._sizes)
            self.is_busy = bool(batch) or has_running
            if not self.is_busy:
                self._changed.wait(patience_s)
        return [ticket.owner for ticket in batch]

    def left(self, parts: list[Part]) -> None:
        """Hear that a batch is off the device."""
        with self._changed:
            for job in {part.job for part in parts}:
                job.num_running -= 1
                if not job.is_running:
                    job.let_go()

    def stop(self) -> None:
        """Take no jobs and give no batches any more."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()

    def fail(self, reason: str) -> bool:
        """Stop for a reason; False: there was one already."""
        with self._changed:
            if self.failure is not None:
                return False
            self.failure = reason
            self._changed.notify()
        return True

    def abandon(self, message: str) -> None:
        """Answer all that runs or waits with an error that allows another try."""
        with self._changed:
            jobs, self._jobs = self._jobs, set()
            for job in jobs:
                self._scheduler.cancel(job.tickets)
            self._report()
            lost = self.failure is not None
        for job in jobs:
            # Only what ran can have been the reason.
            kind = WorkerLost if lost and job.is_running else WorkerUnavailable
            job.wake(kind(message))
            job.let_go()

    def _submit(self, name: str, job: Job, now_s: float, terms: Terms) -> None:
        with self._changed:
            if self._is_stopping or self.failure is not None:
                raise WorkerUnavailable("the worker is stopping; call again")
            lengths = [sequence.num_tokens for sequence in job.sequences]
            most_tokens = int(PART_SHARE * self._budget(name))
            most = int(PART_SHARE * self._scheduler.max_batch_sequences)
            parts = parts_of(job, lengths, most_tokens, most)
            tokens = [sum(lengths[one.start : one.end]) for one in parts]
            counts = [one.end - one.start for one in parts]
            job.tickets = _counted(
                lambda: self._scheduler.submit(name, tokens, parts, now_s, terms, counts)
            )
            self._jobs.add(job)
            self._report()
            self._changed.notify()

    def _give_up(self, job: Job) -> None:
        """Free the places of a job that nobody waits for."""
        with self._changed:
            num_waited = self._scheduler.cancel(job.tickets)
            is_late = job.tickets[0].terms.deadline_s <= time.monotonic()
            (metrics.EXPIRED if is_late else metrics.CANCELLED).inc(num_waited)
            self._report()

    async def _until_off(self, job: Job) -> None:
        """Wait for the batch that runs, cancelled or not: its model must not leave under it."""
        with self._changed:
            if job.is_running and job in self._jobs:
                job.left = job.loop.create_future()
        while job.left is not None and not job.left.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({job.left})
        with self._changed:
            self._jobs.discard(job)

    def _budget(self, model: str) -> int:
        """Return the least that a batch of a model may have, as far as it is known."""
        most, sizes = self.max_batch_tokens, self._sizes
        known = (sizes.learned_tokens, sizes.measured_tokens or {})
        return min(most, *(one.get(model, most) for one in known))

    def _next_batch(self, sizes: Sizes) -> list[Ticket[Part]]:
        now_s = time.monotonic()
        batch = self._scheduler.next_batch(
            now_s, learned_tokens=sizes.learned_tokens, measured_tokens=sizes.measured_tokens
        )
        expired = self._scheduler.take_expired()
        for ticket in expired:
            self._expire(ticket)
        # Those of a request came at one time.
        for job, submitted_s in {one.owner.job: one.submitted_s for one in batch}.items():
            job.num_running += 1
            metrics.QUEUE_SECONDS.observe(now_s - submitted_s)
            if job.started_s is None:
                job.started_s = now_s
        if batch or expired:
            self._report()
        return batch

    def _expire(self, ticket: Ticket[Part]) -> None:
        """Answer a request whose deadline has passed; what it still has in the queue leaves it."""
        job = ticket.owner.job
        metrics.EXPIRED.inc(ticket.num_sequences + self._scheduler.cancel(job.tickets))
        job.wake(DeadlineExceeded("its deadline passed while it waited; send fewer items at once"))

    def _report(self) -> None:
        for priority, gauge in self._token_gauges:
            gauge.set(self._scheduler.priority_tokens(priority))
        self._sequence_gauge.set(self._scheduler.queue_sequences)


def _counted(action: Callable[[], T]) -> T:
    """Count a refusal."""
    try:
        return action()
    except (QueueFull, RateLimited) as error:
        metrics.REFUSED.labels(error.code.lower()).inc()
        raise
