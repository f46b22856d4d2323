"""The device thread: the only code that runs forward passes, one batch after another.

Takes batches from the scheduler, has them run and wakes the waiting request. Knows no task and no
architecture; what becomes of a batch that fails is decided in recovery.py.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Prepared, Result
from sie_mcp.adapters.fast_paths import paths_of
from sie_mcp.engine.batch_sizes import BatchSizes
from sie_mcp.engine.heap import Heap
from sie_mcp.engine.jobs import Job, Place, batch_span
from sie_mcp.engine.recovery import Finish, Forwards
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.tickets import PRIORITIES, Terms, Ticket
from sie_mcp.errors import (
    DeadlineExceeded,
    QueueFull,
    RateLimited,
    WorkerLost,
    WorkerUnavailable,
)

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
# How long the thread waits for the event loop to evict an idle model.
EVICT_TIMEOUT_S = 5.0
# How long a stop waits for the batch that runs; the process is about to end, and callers were
# given their time before.
STOP_TIMEOUT_S = 10.0

# A batch of as many tokens takes a GPU longer than the host needs to launch the next. Fewer are
# done by then, and someone waits for them.
OVERLAP_TOKENS = 4096

T = TypeVar("T")
Evict = Callable[[], Coroutine[Any, Any, bool]]


@dataclass(frozen=True, slots=True)
class Running:
    """A batch; one that overlaps is begun with, and another may be before it is waited for."""

    places: list[Place]
    finish: Finish
    overlaps: bool


class DeviceThread:
    """Owns the device. Start it once; `run` may be called from the event loop by many tasks.

    Args:
        device: Where forward passes run.
        scheduler: The queue; touched under this object's lock only.
        evict: Frees device memory by evicting one idle model; runs on the event loop.
        retries_nonfinite: Run what is not finite again in float32; no use where weights are that.
        name: Tells its figures from those of other devices.
        batch_sizes: What is known of models' batches; None: all have the scheduler's size.
    """

    def __init__(
        self,
        device: torch.device,
        scheduler: Scheduler[Place],
        evict: Evict,
        *,
        retries_nonfinite: bool = True,
        name: str = "",
        batch_sizes: BatchSizes | None = None,
    ) -> None:
        self.device = device
        self.name = name or str(device)
        # When the thread last showed that it moves: before each forward pass, and while it waits.
        self.beat_s = time.monotonic()
        # Why no batch will ever run again; None while all is well.
        self.failure: str | None = None
        self._forwards = Forwards(
            device,
            self._evict_one,
            self._beat,
            self._note_speed,
            retries_nonfinite=retries_nonfinite,
        )
        self._scheduler = scheduler
        self.batch_sizes = batch_sizes
        self._evict = evict
        self._changed = threading.Condition()
        # Whether a batch runs.
        self.is_busy = False
        self._is_stopping = False
        self._memory_came_free = False
        self._heap = Heap()
        self._jobs: set[Job] = set()
        self._token_gauges = [
            (priority, metrics.QUEUE_TOKENS.labels(priority, self.name)) for priority in PRIORITIES
        ]
        self._sequence_gauge = metrics.QUEUE_SEQUENCES.labels(self.name)
        self._events: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._loop, name="device", daemon=True)

    def start(self) -> None:
        """Start the thread; evictions will run on the event loop that calls this."""
        self._events = asyncio.get_running_loop()
        self._thread.start()

    def memory_came_free(self) -> None:
        """Hear that a model left the device, from any thread: what did not fit may fit now."""
        self._memory_came_free = True

    def stop(self) -> None:
        """Stop after the batch that runs; what waits fails as WorkerUnavailable."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(STOP_TIMEOUT_S)
        self.abandon("the worker stopped; call again")

    def fail(self, reason: str) -> None:
        """Give the device up for good, from any thread: whoever waits may try another worker."""
        with self._changed:
            if self.failure is not None:
                return
            self.failure = reason
            self._changed.notify()
        logger.error("the device is given up reason=%s", reason)
        self.abandon("the worker is restarting; call again")

    def abandon(self, message: str) -> None:
        """Answer all that runs or waits with an error that allows another try."""
        with self._changed:
            jobs, self._jobs = self._jobs, set()
            for job in jobs:
                self._scheduler.cancel(job.tickets)
            self._report_queue()
            lost = self.failure is not None
        for job in jobs:
            # Only what ran can have been the reason.
            kind = WorkerLost if lost and job.is_running else WorkerUnavailable
            job.wake(kind(message))
            job.let_go()

    @property
    def is_alive(self) -> bool:
        """Whether batches run or will run."""
        return self._thread.is_alive() and self.failure is None

    @property
    def max_batch_tokens(self) -> int:
        """Tokens of one forward pass, at most."""
        return self._scheduler.max_batch_tokens

    @property
    def has_work(self) -> bool:
        """Whether a batch runs or anything waits for one."""
        return self.is_busy or self.queue_tokens > 0

    @property
    def queue_tokens(self) -> int:
        """Tokens that wait."""
        return self._scheduler.queue_tokens

    @property
    def wait_s(self) -> float:
        """How long what waits will take, at the speed of late; 0 before anything has run."""
        with self._changed:
            return self._scheduler.wait_s

    def check_room(self, num_tokens: int, num_sequences: int, terms: Terms) -> None:
        """Refuse what will be refused, before any of it is read.

        Raises:
            QueueFull, RateLimited: too much is waiting.
        """
        with self._changed:
            self._checked(lambda: self._scheduler.check_room(num_tokens, num_sequences, terms))

    @contextmanager
    def expecting(self, num_tokens: int, num_sequences: int, terms: Terms) -> Iterator[None]:
        """Keep room for a request while it is tokenised; `run` it right after.

        Args:
            num_tokens: About as many as there will be.
            num_sequences: As many.
            terms: Of the request.

        Raises:
            QueueFull, RateLimited: too much is waiting.
        """
        kept = ExitStack()
        with self._changed:
            self._checked(
                lambda: kept.enter_context(
                    self._scheduler.expecting(num_tokens, num_sequences, terms)
                )
            )
        try:
            yield
        finally:
            with self._changed:
                kept.close()

    def waiting_tokens(self, model: str) -> int:
        """Return how many tokens wait for a model: it should not leave the device before them."""
        with self._changed:
            return self._scheduler.waiting_tokens(model)

    async def run(
        self, name: str, adapter: Adapter, prepared: Prepared, terms: Terms | None = None
    ) -> tuple[list[Result], float]:
        """Run all sequences of a request and return their results in order, and the queue time.

        Cancelling drops what has not started, and waits for the batch that runs: its model must
        not leave under it.

        Args:
            name: The model's; the queue's word for it.
            adapter: Runs the sequences.
            prepared: The sequences.
            terms: Priority, client and deadline.

        Raises:
            QueueFull, RateLimited: too much is waiting.
            DeadlineExceeded: the deadline passed before all had started.
            WorkerUnavailable: the worker stops or has lost its device.
        """
        if not prepared.sequences:
            return [], 0.0
        loop = asyncio.get_running_loop()
        job = Job(adapter, prepared.sequences, loop.create_future(), loop)
        await self._until_copied(adapter)
        submitted_s = time.monotonic()
        if self.batch_sizes is not None:
            self.batch_sizes.hear(name, adapter.card)
        self._submit(name, job, submitted_s, terms or Terms())
        try:
            await job.done
        except asyncio.CancelledError:
            self._give_up(job)
            raise
        finally:
            await self._until_off(job)
        queue_s = (job.started_s or submitted_s) - submitted_s
        return [result for result in job.results if result is not None], queue_s

    async def _until_copied(self, adapter: Adapter) -> None:
        """Hold a model back that is still on its way while the device has other work.

        The device would wait for the copy in the middle of the others' batches. Without other work
        it waits better than we do: its queue fills meanwhile.
        """
        if adapter.weights is not None and adapter.weights.is_coming and self.is_busy:
            await asyncio.to_thread(adapter.weights.arrived)

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

    def _submit(self, name: str, job: Job, now_s: float, terms: Terms) -> None:
        with self._changed:
            if self._is_stopping or self.failure is not None:
                raise WorkerUnavailable("the worker is stopping; call again")
            tokens = [sequence.num_tokens for sequence in job.sequences]
            places = [Place(job, index) for index in range(len(job.sequences))]
            job.tickets = self._checked(
                lambda: self._scheduler.submit(name, tokens, places, now_s, terms)
            )
            self._jobs.add(job)
            self._report_queue()
            self._changed.notify()

    def _checked(self, action: Callable[[], T]) -> T:
        """Count a refusal."""
        try:
            return action()
        except (QueueFull, RateLimited) as error:
            metrics.REFUSED.labels(error.code.lower()).inc()
            raise

    def _give_up(self, job: Job) -> None:
        """Free the places of a job that nobody waits for."""
        with self._changed:
            num_waited = self._scheduler.cancel(job.tickets)
            is_late = job.tickets[0].terms.deadline_s <= time.monotonic()
            (metrics.EXPIRED if is_late else metrics.CANCELLED).inc(num_waited)
            self._report_queue()

    def _loop(self) -> None:
        """Run batches until stopped; whatever ends this thread otherwise ends the worker."""
        try:
            self._run_batches()
        except BaseException as error:
            # Nobody else can run a batch, so that nothing may pass here, SystemExit included.
            logger.exception("the device thread ended")
            self.fail(f"the device thread ended ({type(error).__name__}: {error!s:.200})")

    def _run_batches(self) -> None:
        running: Running | None = None
        while True:
            with self._changed:
                self._beat()
                if self._is_stopping or self.failure is not None:
                    break
                if self._memory_came_free:
                    self._memory_came_free = False
                    self._forwards.budgets.memory_came_free()
                batch = self._next_batch()
                self.is_busy = bool(batch) or running is not None
                if not batch and running is None:
                    self._changed.wait(HEARTBEAT_S)
            started = self._start([ticket.owner for ticket in batch]) if batch else None
            if running is not None:
                self._finish(running)
            running = started
            if running is not None and not running.overlaps:
                self._finish(running)
                running = None
            if self.device.type == "cpu":
                self._heap.tidy(was_used=bool(batch))
        if running is not None:
            self._finish(running)

    def _next_batch(self) -> list[Ticket[Place]]:
        now_s = time.monotonic()
        batch = self._scheduler.next_batch(
            now_s,
            learned_tokens=self._forwards.budgets.tokens,
            measured_tokens=self.batch_sizes.tokens if self.batch_sizes else None,
        )
        expired = self._scheduler.take_expired()
        for ticket in expired:
            self._expire(ticket.owner.job)
        # Those of a request came at one time.
        for job, submitted_s in {one.owner.job: one.submitted_s for one in batch}.items():
            job.num_running += 1
            metrics.QUEUE_SECONDS.observe(now_s - submitted_s)
            if job.started_s is None:
                job.started_s = now_s
        if batch or expired:
            self._report_queue()
        return batch

    def _expire(self, job: Job) -> None:
        """Answer a request whose deadline has passed; what it still has in the queue leaves it."""
        metrics.EXPIRED.inc(1 + self._scheduler.cancel(job.tickets))
        job.wake(DeadlineExceeded("its deadline passed while it waited; send fewer items at once"))

    def _report_queue(self) -> None:
        for priority, gauge in self._token_gauges:
            gauge.set(self._scheduler.priority_tokens(priority))
        self._sequence_gauge.set(self._scheduler.queue_sequences)

    def _start(self, places: list[Place]) -> Running:
        """Have the device begin with places of one model, if that is of use.

        Raises:
            DeviceLost: no batch can run any more.
        """
        # Similar lengths side by side: kernels that pad, pad less.
        places = sorted(places, key=lambda place: place.order)
        adapter = places[0].job.adapter
        sequences = [place.sequence for place in places]
        num_tokens = sum(one.num_tokens for one in sequences)
        if "overlap" in paths_of(adapter) and num_tokens >= OVERLAP_TOKENS:
            return Running(places, self._forwards.start(adapter, sequences), overlaps=True)
        return Running(places, partial(self._forwards.run, adapter, sequences), overlaps=False)

    def _finish(self, running: Running) -> None:
        """Wait for a batch and settle each of its places.

        Raises:
            DeviceLost: no batch can run any more.
        """
        with batch_span(running.places, self.name):
            results = running.finish()
        with self._changed:
            for job in {place.job for place in running.places}:
                job.num_running -= 1
                if not job.is_running:
                    job.let_go()
        for place, result in zip(running.places, results, strict=True):
            place.settle(result)

    def _beat(self) -> None:
        self.beat_s = time.monotonic()

    def _evict_one(self) -> bool:
        """Have the event loop evict one idle model; False when there is none."""
        if self._events is None or self._events.is_closed():
            return False
        evicted = asyncio.run_coroutine_threadsafe(self._evict(), self._events)
        try:
            return evicted.result(EVICT_TIMEOUT_S)
        except TimeoutError:
            logger.warning("eviction timed out after_s=%.0f", EVICT_TIMEOUT_S)
            return False

    def _note_speed(self, model: str, tokens: int, seconds: float) -> None:
        with self._changed:
            self._scheduler.note_speed(model, tokens, seconds)
