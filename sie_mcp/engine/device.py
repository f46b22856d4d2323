"""The device thread: the only code that runs forward passes, one batch after another.

Takes batches from the queue of jobs, has them run and settles their parts. Knows no task and no
architecture; what becomes of a batch that fails is decided in recovery.py.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sie_mcp.adapters.adapter import Adapter, Prepared, Result, Sequence
from sie_mcp.adapters.fast_paths import paths_of
from sie_mcp.engine.batch_sizes import BatchSizes
from sie_mcp.engine.heap import Heap
from sie_mcp.engine.job_queue import JobQueue, Sizes
from sie_mcp.engine.jobs import Job, Part, batch_span
from sie_mcp.engine.recovery import Finish, Forwards
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.tickets import Terms

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

Evict = Callable[[], Coroutine[Any, Any, bool]]


@dataclass(frozen=True, slots=True)
class Running:
    """A batch; one that overlaps is begun with, and another may be before it is waited for."""

    parts: list[Part]
    # Which of the parts' sequences, one after another, each of the results is of.
    order: list[int]
    finish: Finish
    overlaps: bool


class DeviceThread:
    """Owns the device. Start it once; `run` may be called from the event loop by many tasks.

    Args:
        device: Where forward passes run.
        scheduler: The queue; nobody else may touch it any more.
        evict: Frees device memory by evicting one idle model; runs on the event loop.
        retries_nonfinite: Run what is not finite again in float32; no use where weights are that.
        name: Tells its figures from those of other devices.
        batch_sizes: What is known of models' batches; None: all have the scheduler's size.
    """

    def __init__(
        self,
        device: torch.device,
        scheduler: Scheduler[Part],
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
        self.batch_sizes = batch_sizes
        self._queue = JobQueue(scheduler, self.name)
        self._forwards = Forwards(
            device,
            self._evict_one,
            self._beat,
            self._queue.note_speed,
            retries_nonfinite=retries_nonfinite,
        )
        self._evict = evict
        self._memory_came_free = False
        self._heap = Heap(has_code=device.type == "cpu")
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
        self._queue.stop()
        self._thread.join(STOP_TIMEOUT_S)
        self.abandon("the worker stopped; call again")

    def fail(self, reason: str) -> None:
        """Give the device up for good, from any thread: whoever waits may try another worker."""
        if self._queue.fail(reason):
            logger.error("the device is given up reason=%s", reason)
            self.abandon("the worker is restarting; call again")

    def abandon(self, message: str) -> None:
        """Answer all that runs or waits with an error that allows another try."""
        self._queue.abandon(message)

    @property
    def failure(self) -> str | None:
        """Why no batch will ever run again; None while all is well."""
        return self._queue.failure

    @property
    def is_alive(self) -> bool:
        """Whether batches run or will run."""
        return self._thread.is_alive() and self.failure is None

    @property
    def max_batch_tokens(self) -> int:
        """Tokens of one forward pass, at most."""
        return self._queue.max_batch_tokens

    @property
    def is_busy(self) -> bool:
        """Whether a batch runs."""
        return self._queue.is_busy

    @property
    def has_work(self) -> bool:
        """Whether a batch runs or anything waits for one."""
        return self.is_busy or self.queue_tokens > 0

    @property
    def queue_tokens(self) -> int:
        """Tokens that wait."""
        return self._queue.tokens

    @property
    def wait_s(self) -> float:
        """How long what waits will take, at the speed of late; 0 before anything has run."""
        return self._queue.wait_s

    def check_room(self, num_tokens: int, num_sequences: int, terms: Terms) -> None:
        """Refuse what will be refused, before any of it is read.

        Raises:
            QueueFull, RateLimited: too much is waiting.
        """
        self._queue.check_room(num_tokens, num_sequences, terms)

    def expecting(
        self, num_tokens: int, num_sequences: int, terms: Terms
    ) -> AbstractContextManager[None]:
        """Keep room for a request while it is tokenised; `run` it right after.

        Args:
            num_tokens: About as many as there will be.
            num_sequences: As many.
            terms: Of the request.

        Raises:
            QueueFull, RateLimited: too much is waiting; on entering.
        """
        return self._queue.expecting(num_tokens, num_sequences, terms)

    def waiting_tokens(self, model: str) -> int:
        """Return how many tokens wait for a model: it should not leave the device before them."""
        return self._queue.waiting_tokens(model)

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
        if self.batch_sizes is not None:
            self.batch_sizes.hear(name, adapter.card)
        queue_s = await self._queue.run(name, job, terms or Terms())
        return [result for result in job.results if result is not None], queue_s

    async def _until_copied(self, adapter: Adapter) -> None:
        """Hold a model back that is still on its way while the device has other work.

        The device would wait for the copy in the middle of the others' batches. Without other work
        it waits better than we do: its queue fills meanwhile.
        """
        if adapter.weights is not None and adapter.weights.is_coming and self.is_busy:
            await asyncio.to_thread(adapter.weights.arrived)

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
        while (parts := self._take(has_running=running is not None)) is not None:
            started = self._start(parts) if parts else None
            if running is not None:
                self._finish(running)
            running = started
            if running is not None and not running.overlaps:
                self._finish(running)
                running = None
            if self.device.type == "cpu":
                self._heap.tidy(was_used=bool(parts))
        if running is not None:
            self._finish(running)

    def _take(self, *, has_running: bool) -> list[Part] | None:
        """Take the next batch, empty where nothing came; None: the thread is to end."""
        self._beat()
        return self._queue.take(self._sizes, has_running=has_running, patience_s=HEARTBEAT_S)

    def _sizes(self) -> Sizes:
        budgets = self._forwards.budgets
        if self._memory_came_free:
            self._memory_came_free = False
            budgets.memory_came_free()
        return Sizes(budgets.tokens, self.batch_sizes.tokens if self.batch_sizes else None)

    def _start(self, parts: list[Part]) -> Running:
        """Have the device begin with sequences of one model, if that is of use.

        Raises:
            DeviceLost: no batch can run any more.
        """
        waiting = [sequence for part in parts for sequence in part.sequences]
        order = _in_order(waiting)
        sequences = [waiting[place] for place in order]
        num_tokens = sum([one.num_tokens for one in sequences])
        adapter = parts[0].job.adapter
        overlaps = "overlap" in paths_of(adapter) and num_tokens >= OVERLAP_TOKENS
        if overlaps:
            finish = self._forwards.start(adapter, sequences)
        else:
            finish = partial(self._forwards.run, adapter, sequences)
        return Running(parts, order, finish, overlaps)

    def _finish(self, running: Running) -> None:
        """Wait for a batch and settle each of its parts.

        Raises:
            DeviceLost: no batch can run any more.
        """
        with batch_span(running.parts, self.name):
            results = running.finish()
        self._queue.left(running.parts)
        settled = list(results)
        for place, result in zip(running.order, results, strict=True):
            settled[place] = result
        end = 0
        for part in running.parts:
            start, end = end, end + part.end - part.start
            part.settle(settled[start:end])

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


def _in_order(sequences: list[Sequence]) -> list[int]:
    """Return the places of sequences as a batch has them.

    Adapters each in one piece; then similar lengths side by side, the longest first: kernels that
    pad, pad less.
    """
    keys = [(0 if one.lora is None else id(one.lora), -one.num_tokens) for one in sequences]
    return sorted(range(len(keys)), key=keys.__getitem__)
