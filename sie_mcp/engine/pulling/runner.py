"""One message from a worker's hand to its answer: once, in time, or not at all.

Lives on one event loop. What ends the process leaves the message unanswered: the broker hands it
out again, and then it runs alone.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from sie_mcp import metrics
from sie_mcp.broker.broker import Broker, Delivery
from sie_mcp.broker.messages import (
    ALONE,
    BODY,
    ID,
    Answer,
    Call,
    deadline_of,
    error_answer,
    name_of,
    unpack_call,
)
from sie_mcp.broker.names import Kind, Lane, subject_of
from sie_mcp.broker.settling import bury, is_wanted, settle
from sie_mcp.errors import DeadlineExceeded, InvalidInput, SieError

logger = logging.getLogger(__name__)

MAX_CANCELLED = 10_000
# Said several times within the time after which silence counts as an end.
SPEAK_SHARE = 0.25
# A worker that is full, or still loads, is asked again: the message stays in its hand meanwhile.
_AGAIN = {"MODEL_LOADING", "QUEUE_FULL", "RATE_LIMIT"}
_LEAVING = {"WORKER_UNAVAILABLE", "WORKER_LOST"}
AGAIN_S = 0.25

Run = Callable[[Call, float | None], Awaitable[Answer]]


class Runner:
    """Runs what one worker pulls.

    Args:
        broker: That it comes by.
        pool: The worker's.
        run: Answers a call.
        ack_wait_s: Returns after how long a silent worker counts as gone.
    """

    def __init__(
        self, broker: Broker, pool: str, run: Run, ack_wait_s: Callable[[], float]
    ) -> None:
        self._broker = broker
        self._pool = pool
        self._run = run
        self._ack_wait_s = ack_wait_s
        self._running: dict[str, list[anyio.CancelScope]] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()

    async def hear_cancelled(self, _: bytes, headers: Mapping[str, str]) -> None:
        """Hear of a request that nobody waits for any more."""
        name = headers.get(ID, "")
        for scope in self._running.get(name, ()):
            scope.cancel()
        if name in self._running:
            return
        self._cancelled[name] = None
        if len(self._cancelled) > MAX_CANCELLED:
            self._cancelled.popitem(last=False)

    @asynccontextmanager
    async def in_hand(self, delivery: Delivery) -> AsyncIterator[None]:
        """Tell the broker all the while that a message is not lost."""

        async def speak() -> None:
            while True:
                await anyio.sleep(self._ack_wait_s() * SPEAK_SHARE)
                await delivery.in_work()

        async with anyio.create_task_group() as group:
            group.start_soon(speak)
            yield
            group.cancel_scope.cancel()

    async def handle(self, delivery: Delivery, kind: Kind, lane: Lane, token: str) -> None:
        """Answer a message, or see to it that another worker does."""
        if delivery.times > 1:
            metrics.QUEUE_REDELIVERED.labels(lane).inc()
        async with self.in_hand(delivery):
            try:
                if delivery.times > 1 and lane == "work":
                    is_done = await self._set_aside(delivery, kind, token)
                else:
                    is_done = await self._answer(delivery, kind, token)
            except SieError as error:
                # The broker is away; it hands the message out again.
                logger.warning("a message is left to another: %s", error)
                return
            except Exception:
                # The outermost door of what is pulled: one message's bug must not end the others.
                logger.exception("a message could not be handled token=%s", token)
                return
        await (delivery.done() if is_done else delivery.hand_back())

    async def _set_aside(self, delivery: Delivery, kind: Kind, token: str) -> bool:
        """Move what was in the hand of a worker that ended to where it runs by itself.

        It may be the reason; those that were only beside it shall not end with it again.
        """
        headers = dict(delivery.headers)
        headers[ID] = f"{name_of(headers)}{ALONE}"
        subject = subject_of(kind, self._pool, "alone", token)
        await self._broker.put(subject, delivery.data, headers)
        return True

    async def _answer(self, delivery: Delivery, kind: Kind, token: str) -> bool:
        """Return whether the message is done with; otherwise another worker should have it."""
        headers, name = delivery.headers, name_of(delivery.headers)
        if name in self._cancelled or not await is_wanted(self._broker, kind, headers):
            self._cancelled.pop(name, None)
            return True
        deadline_s = deadline_of(headers)
        left_s = None if deadline_s is None else deadline_s - time.time()
        if left_s is not None and left_s <= 0:
            metrics.QUEUE_EXPIRED.inc()
            late = DeadlineExceeded(f"no worker was free until the deadline, {-left_s:.1f} s ago")
            await settle(self._broker, kind, headers, error_answer(late))
            return True
        try:
            call = unpack_call(await self._data(delivery, kind))
        except InvalidInput as error:
            await self._bury(delivery, kind, token, headers, error)
            return True
        metrics.QUEUE_WAIT_SECONDS.observe(delivery.age_s)
        answer = await self._until_answered(name, call, left_s)
        if answer is None:
            return True
        if _code(answer) in _LEAVING:
            return False
        await settle(self._broker, kind, headers, answer)
        if BODY in headers:
            await self._broker.forget(kind, headers[BODY])
        return True

    async def _data(self, delivery: Delivery, kind: Kind) -> bytes:
        """Return a message's bytes from where they are.

        Raises:
            InvalidInput: they are gone.
        """
        if BODY not in delivery.headers:
            return delivery.data
        data = await self._broker.kept(kind, delivery.headers[BODY])
        if data is None:
            raise InvalidInput("the body, which lay apart, is gone")
        return data

    async def _until_answered(self, name: str, call: Call, left_s: float | None) -> Answer | None:
        """Run a call, again while the worker is not ready for it; None if it was cancelled."""
        ends_s = None if left_s is None else anyio.current_time() + left_s
        answer: Answer | None = None
        with anyio.CancelScope() as scope:
            # Twice where the broker took this worker for dead.
            self._running.setdefault(name, []).append(scope)
            try:
                while True:
                    left_s = None if ends_s is None else ends_s - anyio.current_time()
                    answer = await self._run(call, left_s)
                    if _code(answer) not in _AGAIN or (left_s is not None and left_s <= AGAIN_S):
                        return answer
                    await anyio.sleep(AGAIN_S)
            finally:
                self._running[name].remove(scope)
                if not self._running[name]:
                    del self._running[name]
        return None if scope.cancelled_caught else answer

    async def _bury(
        self,
        delivery: Delivery,
        kind: Kind,
        token: str,
        headers: Mapping[str, str],
        error: SieError,
    ) -> None:
        await bury(
            self._broker,
            self._pool,
            token,
            delivery.data,
            headers,
            name=f"{name_of(headers)}.dead",
            reason="unreadable",
            why=str(error),
        )
        await settle(self._broker, kind, headers, error_answer(error))


def _code(answer: Answer) -> str:
    """Return an answer's error code; empty where it is none."""
    if answer.status < 400:
        return ""
    pairs = {name.lower(): value for name, value in answer.headers}
    return pairs.get("x-sie-error-code", "")
