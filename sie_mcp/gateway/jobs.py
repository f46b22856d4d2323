"""Tool calls that run apart from the request that began them, so that they can outlast it.

A job is a call like any other until its request stops waiting for it; from then on it is a task:
its state is written to the book, and somebody far away may have it cancelled.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.types import INTERNAL_ERROR, CallToolResult, ErrorData

from sie_mcp import metrics
from sie_mcp.errors import StoreUnavailable
from sie_mcp.gateway.task_records import LEASE_S, TaskBook, TaskRecord, new_id

logger = logging.getLogger(__name__)

# How often a task's state is written and a wish to cancel it is looked for.
BEAT_S = 1.0
# How long the end of a process may wait for the store.
LAST_WORD_S = 3.0
# How often it is tried to write the end of a task, with a beat between.
MAX_LAST_WORDS = 300
BROKEN = ErrorData(code=INTERNAL_ERROR, message="Internal server error")
STOPPED = ErrorData(code=INTERNAL_ERROR, message="the server was stopped; call the tool again")


@dataclass(eq=False)
class Job:
    """One call: how it ended is its `result` or its `error`; neither if it was cancelled."""

    owner: str
    task_id: str = field(default_factory=new_id)
    began_s: float = field(default_factory=anyio.current_time)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    result: Any = None
    error: ErrorData | None = None
    record: TaskRecord | None = None
    message: str | None = None
    is_cancelled: bool = False
    is_written: bool = False
    writing: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def age_s(self) -> float:
        """How long ago it began."""
        return anyio.current_time() - self.began_s

    def answer(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        if self.error is None and self.result is None:
            raise MCPError.from_error_data(STOPPED)
        if self.error is not None:
            raise MCPError.from_error_data(self.error)
        return self.result

    def close(self, record: TaskRecord) -> None:
        """Write into a record how the call ended."""
        if self.is_cancelled:
            record.status, record.status_message = "cancelled", "cancelled by the client"
        elif self.error is None and self.result is not None:
            record.status, record.status_message = "completed", None
            record.result = _wire(self.result)
        else:
            error = self.error or STOPPED
            record.status, record.status_message = "failed", error.message
            record.error = error.model_dump(mode="json", by_alias=True, exclude_none=True)


class Jobs:
    """The jobs of this process, and the tasks that it has to keep.

    Args:
        max_tasks: How many tasks there may be, ended ones included until they expire.
        ttl_s: How long an ended task is kept.
    """

    def __init__(
        self, book: TaskBook, *, max_tasks: int, ttl_s: float, beat_s: float = BEAT_S
    ) -> None:
        self._book = book
        self._max_tasks = max_tasks
        self._ttl_s = ttl_s
        self._beat_s = min(beat_s, LEASE_S / 4)
        self._running: dict[str, Job] = {}
        self._ended: deque[float] = deque()

    @property
    def have_room(self) -> bool:
        """Whether another task can be kept."""
        now_s = anyio.current_time()
        while self._ended and self._ended[0] <= now_s:
            self._ended.popleft()
        return len(self._running) + len(self._ended) < self._max_tasks

    async def run(self, job: Job, work: Callable[[], Awaitable[Any]]) -> None:
        """Run a job to its end, or until its scope is cancelled."""
        try:
            with job.scope:
                job.result = await work()
        except MCPError as error:
            job.error = error.error
        except Exception:
            # The outermost door of what runs apart: one job's bug must not end the others.
            logger.exception("a job ended unexpectedly")
            job.error = BROKEN
        finally:
            job.done.set()
            if job.record is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_WORD_S):
                    await self._end(job)

    async def make_task(self, job: Job, background: TaskGroup) -> TaskRecord | None:
        """Turn a running job into a task that any replica knows; None if it ended meanwhile.

        Raises:
            StoreUnavailable: it could not be written, and stays what it was.
        """
        record = self._book.new(job.task_id, job.age_s)
        record.status_message = job.message
        await self._book.runs(job.task_id)
        await self._book.write(record, job.owner, job.age_s)
        if job.done.is_set():
            await self._book.forget(job.task_id, job.owner)
            return None
        job.record = record
        self._running[job.task_id] = job
        background.start_soon(self._accompany, job)
        return record

    async def cancel(self, task_id: str) -> None:
        """End a task wherever it runs."""
        job = self._running.get(task_id)
        if job is None:
            await self._book.ask_to_cancel(task_id)
        else:
            _give_up(job)

    async def _accompany(self, job: Job) -> None:
        """Say that a task runs and how far it is, and hear whether it is still wanted.

        Goes on after its end until that is written, should the store be away for a while.
        """
        tries = 0
        while not job.is_written and tries < MAX_LAST_WORDS:
            tries += job.done.is_set()
            with anyio.move_on_after(self._beat_s):
                await (anyio.sleep_forever() if job.done.is_set() else job.done.wait())
            try:
                await self._book.runs(job.task_id)
                if await self._book.is_asked_to_cancel(job.task_id):
                    _give_up(job)
                await self._write(job)
            except StoreUnavailable as error:
                logger.warning("the state of a task is not written: %s", error)

    async def _end(self, job: Job) -> None:
        self._running.pop(job.task_id, None)
        self._ended.append(anyio.current_time() + self._ttl_s)
        try:
            await self._write(job)
        except StoreUnavailable as error:
            logger.warning("how a task ended is not written yet: %s", error)

    async def _write(self, job: Job) -> None:
        assert job.record is not None
        # One at a time, and each the newest state: an older one must not come after the end.
        async with job.writing:
            if job.is_written:
                return
            has_ended = job.done.is_set()
            if has_ended:
                job.close(job.record)
            else:
                job.record.status_message = job.message
            await self._book.write(job.record, job.owner, job.age_s)
            if has_ended:
                job.is_written = True
                metrics.TASKS.labels(job.record.status).inc()


def _give_up(job: Job) -> None:
    if not job.done.is_set():
        job.is_cancelled = True
        job.scope.cancel()


def _wire(result: Any) -> dict[str, Any]:
    if isinstance(result, CallToolResult):
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dict(result)
