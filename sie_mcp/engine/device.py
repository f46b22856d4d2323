"""The device thread: the only code that runs forward passes, one batch after another.

Takes batches from the scheduler, packs, runs, copies back and wakes the waiting request. A failed
batch is cut until only the sequence at fault fails. Knows no task and no architecture.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Adapter, Prepared, Result, Sequence
from sie_mcp.adapters.packing import pack
from sie_mcp.engine.retry_wide import WideAdapter, retry_wide, unpack_finite
from sie_mcp.engine.scheduler import Scheduler, Ticket
from sie_mcp.errors import InferenceError, OutOfMemory, SieError, WorkerUnavailable

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
# How long the thread waits for the event loop to evict an idle model.
EVICT_TIMEOUT_S = 5.0
SMALLEST_BUDGET = 64

Evict = Callable[[], Coroutine[Any, Any, bool]]


@dataclass(slots=True, eq=False)
class Job:
    """A request's sequences on their way through the device."""

    adapter: Adapter
    sequences: list[Sequence]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop
    results: list[Result | None] = field(default_factory=list)
    tickets: list[Ticket["Place"]] = field(default_factory=list)
    missing: int = 0
    started_s: float | None = None
    # Of its sequences, how many are in the batch that runs; `left` waits until none is.
    num_running: int = 0
    left: asyncio.Future[None] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """One sequence of a job."""

    job: Job
    index: int


class DeviceThread:
    """Owns the device. Start it once; `run` may be called from the event loop by many tasks.

    Args:
        device: Where forward passes run.
        scheduler: The queue; touched under this object's lock only.
        evict: Frees device memory by evicting one idle model; runs on the event loop.
        retries_nonfinite: Run what is not finite again in float32; no use where weights are that.
    """

    def __init__(
        self,
        device: torch.device,
        scheduler: Scheduler[Place],
        evict: Evict,
        *,
        retries_nonfinite: bool = True,
    ) -> None:
        self.device = device
        self._retries_nonfinite = retries_nonfinite
        self.beat_s = time.monotonic()
        self._scheduler = scheduler
        self._evict = evict
        self._changed = threading.Condition()
        self._is_stopping = False
        # Whether a batch runs.
        self.is_busy = False
        # Per adapter: what once did not fit is not tried again.
        self._learned_tokens: dict[str, int] = {}
        self._tokens_per_s = 0.0
        self._events: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._loop, name="device", daemon=True)

    def start(self) -> None:
        """Start the thread; evictions will run on the event loop that calls this."""
        self._events = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop after the batch that runs; what waits fails as WorkerUnavailable."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs at all."""
        return self._thread.is_alive()

    @property
    def queue_tokens(self) -> int:
        """Tokens that wait."""
        return self._scheduler.queue_tokens

    async def run(
        self, name: str, adapter: Adapter, prepared: Prepared
    ) -> tuple[list[Result], float]:
        """Run all sequences of a request and return their results in order, and the queue time.

        Cancelling drops what has not started, and waits for the batch that runs: its model must
        not leave under it.

        Raises:
            QueueFull: too much is waiting.
        """
        if not prepared.sequences:
            return [], 0.0
        loop = asyncio.get_running_loop()
        job = Job(adapter, prepared.sequences, loop.create_future(), loop)
        job.results = [None] * len(job.sequences)
        job.missing = len(job.sequences)
        await self._until_copied(adapter)
        submitted_s = time.monotonic()
        with self._changed:
            if self._is_stopping:
                raise WorkerUnavailable("the worker is stopping; call again")
            job.tickets = self._scheduler.submit(
                name,
                [sequence.num_tokens for sequence in job.sequences],
                [Place(job, index) for index in range(len(job.sequences))],
                submitted_s,
                tokens_per_s=self._tokens_per_s,
            )
            metrics.QUEUE_TOKENS.set(self._scheduler.queue_tokens)
            self._changed.notify()
        try:
            await job.done
        except asyncio.CancelledError:
            with self._changed:
                self._scheduler.cancel(job.tickets)
                metrics.QUEUE_TOKENS.set(self._scheduler.queue_tokens)
                if job.num_running:
                    job.left = loop.create_future()
            await _whatever_comes(job.left)
            raise
        queue_s = (job.started_s or submitted_s) - submitted_s
        return [result for result in job.results if result is not None], queue_s

    async def _until_copied(self, adapter: Adapter) -> None:
        """Hold a model back that is still on its way while the device has other work.

        The device would wait for the copy in the middle of the others' batches. Without other work
        it waits better than we do: its queue fills meanwhile.
        """
        if adapter.weights is not None and adapter.weights.is_coming and self.is_busy:
            await asyncio.to_thread(adapter.weights.arrived)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self.beat_s = time.monotonic()
                if self._is_stopping:
                    break
                batch = self._next_batch()
                if not batch:
                    self._changed.wait(HEARTBEAT_S)
                    continue
            places = [ticket.owner for ticket in batch]
            self._run_batch(places)
            self._leave(places)
        self._refuse_rest()

    def _next_batch(self) -> list[Ticket[Place]]:
        now_s = time.monotonic()
        batch = self._scheduler.next_batch(now_s, max_tokens=self._budget())
        for ticket in batch:
            metrics.QUEUE_SECONDS.observe(now_s - ticket.submitted_s)
            ticket.owner.job.num_running += 1
            if ticket.owner.job.started_s is None:
                ticket.owner.job.started_s = now_s
        self.is_busy = bool(batch)
        if batch:
            metrics.QUEUE_TOKENS.set(self._scheduler.queue_tokens)
        return batch

    def _leave(self, places: list[Place]) -> None:
        """Let cancelled requests go whose last sequence has run."""
        with self._changed:
            for place in places:
                job = place.job
                job.num_running -= 1
                if job.left is not None and not job.num_running:
                    _wake(job, job.left)

    def _budget(self) -> int | None:
        return min(self._learned_tokens.values(), default=None)

    def _run_batch(self, places: list[Place]) -> None:
        """Run places of one model and settle each; never raises."""
        # Similar lengths side by side: kernels that pad, pad less. Adapters each in one piece.
        places = sorted(places, key=_order)
        adapter = places[0].job.adapter
        sequences = [place.job.sequences[place.index] for place in places]
        results = self._compute(adapter, sequences)
        if self._retries_nonfinite:
            results = retry_wide(adapter, sequences, results, self._compute)
        for place, result in zip(places, results, strict=True):
            _settle(place, result)

    def _compute(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        started_s = time.monotonic()
        try:
            results = self._forward(adapter, sequences)
        except torch.OutOfMemoryError as error:
            return self._after_out_of_memory(adapter, sequences, error)
        except SieError as error:
            return self._alone(adapter, sequences, error)
        except Exception as error:
            # The device loop is one of the two places that may catch everything: it must go on.
            logger.exception(
                "forward failed model=%s sequences=%d", adapter.card.name, len(sequences)
            )
            message = f"the forward pass failed ({type(error).__name__})"
            return self._alone(adapter, sequences, InferenceError(message))
        self._account(sum(one.num_tokens for one in sequences), time.monotonic() - started_s)
        return results

    def _forward(self, adapter: Adapter, sequences: list[Sequence]) -> list[Result]:
        self.beat_s = time.monotonic()
        if adapter.weights is not None:
            adapter.weights.follow()
        with torch.inference_mode():
            outputs = adapter.forward(pack(sequences, self.device))
            return unpack_finite(adapter, outputs, len(sequences))

    def _alone(self, adapter: Adapter, sequences: list[Sequence], error: SieError) -> list[Result]:
        """Run the halves of a failed batch until the sequence at fault is alone with its error."""
        if len(sequences) == 1:
            return [error]
        middle = len(sequences) // 2
        return self._compute(adapter, sequences[:middle]) + self._compute(
            adapter, sequences[middle:]
        )

    def _after_out_of_memory(
        self, adapter: Adapter, sequences: list[Sequence], error: Exception
    ) -> list[Result]:
        """Drop caches, evict an idle model, then halve the batch; alone, give a retryable error."""
        self._empty_caches()
        if self._evict_one(adapter):
            metrics.OUT_OF_MEMORY.labels("evict").inc()
            return self._compute(adapter, sequences)
        tokens = sum(one.num_tokens for one in sequences)
        if len(sequences) > 1:
            metrics.OUT_OF_MEMORY.labels("halve").inc()
            # A second try in float32 says nothing of what else fits.
            if not isinstance(adapter, WideAdapter):
                learned = max(tokens // 2, SMALLEST_BUDGET)
                self._learned_tokens[adapter.card.name] = learned
                logger.warning("out of memory model=%s new_budget=%d", adapter.card.name, learned)
            return self._alone(adapter, sequences, OutOfMemory("out of memory"))
        metrics.OUT_OF_MEMORY.labels("fail").inc()
        logger.warning("out of memory model=%s tokens=%d alone", adapter.card.name, tokens)
        text = f"a sequence of {tokens} tokens does not fit in device memory now ({error!s:.80})"
        return [OutOfMemory(text, retry_after_s=1.0)]

    def _evict_one(self, adapter: Adapter) -> bool:
        """Have the event loop evict one idle model; False when there is none."""
        if self._events is None or self._events.is_closed():
            return False
        evicted = asyncio.run_coroutine_threadsafe(self._evict(), self._events)
        try:
            return evicted.result(EVICT_TIMEOUT_S)
        except TimeoutError:
            logger.warning("eviction timed out model=%s", adapter.card.name)
            return False

    def _empty_caches(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _account(self, tokens: int, seconds: float) -> None:
        metrics.BATCH_TOKENS.observe(tokens)
        metrics.BATCH_SECONDS.observe(seconds)
        metrics.TOKENS.inc(tokens)
        speed = tokens / max(seconds, 1e-6)
        self._tokens_per_s = (
            speed if not self._tokens_per_s else (0.8 * self._tokens_per_s + 0.2 * speed)
        )

    def _refuse_rest(self) -> None:
        """Answer everything that still waits, so that nobody waits for ever."""
        error = WorkerUnavailable("the worker stopped; call again")
        while True:
            with self._changed:
                batch = self._scheduler.next_batch(time.monotonic())
            if not batch:
                return
            for ticket in batch:
                _settle(ticket.owner, error)


def _order(place: Place) -> tuple[int, int]:
    sequence = place.job.sequences[place.index]
    return (0 if sequence.lora is None else id(sequence.lora), -sequence.num_tokens)


def _settle(place: Place, result: Result) -> None:
    """Give a sequence its result; the job's last one wakes the request."""
    job = place.job
    job.results[place.index] = result
    job.missing -= 1
    if job.missing == 0:
        _wake(job, job.done)


def _wake(job: Job, waited_for: asyncio.Future[None]) -> None:
    if not job.loop.is_closed():
        job.loop.call_soon_threadsafe(_finish, waited_for)


async def _whatever_comes(left: asyncio.Future[None] | None) -> None:
    """Wait although the request was cancelled, and is perhaps cancelled again."""
    while left is not None and not left.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({left})


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
