"""A worker that pulls: for each model it was told, its lanes, as long as it was told.

Lives on one event loop, beside the web server. Never waits to fill a batch: it waits for one
message, then takes at once what lies there, as many as it has room for.
"""

import logging
import time
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from sie_mcp.broker.broker import Broker, Delivery, Pull
from sie_mcp.broker.names import KINDS, LANES, Kind, Lane, cancel_subject
from sie_mcp.broker.pull_request import PullAnswer, PullRequest
from sie_mcp.engine.pulling.leases import Leases
from sie_mcp.engine.pulling.runner import Run, Runner
from sie_mcp.errors import BrokerUnavailable

logger = logging.getLogger(__name__)

# Measured: more at once wait longer for each other than they save.
MAX_FETCH = 8
# A wait for a message is asked for anew so often.
LINGER_S = 5.0
PAUSE_S = 0.25


class Pulling:
    """What one worker pulls.

    Args:
        broker: Where from.
        pool: The worker's.
        run: Answers a call.
        is_draining: Whether the worker takes nothing new.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        broker: Broker,
        pool: str,
        run: Run,
        *,
        is_draining: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._pool = pool
        self._is_draining = is_draining
        self._clock = clock
        self._leases = Leases(pool)
        self._runner = Runner(broker, pool, run, lambda: self._leases.ack_wait_s)
        self._slots = anyio.CapacityLimiter(self._leases.slots)
        # One at a time in the whole worker: what ends it shall take no other suspect along.
        self._alone = anyio.Lock()
        self._pulled: set[str] = set()
        self._group: TaskGroup | None = None

    async def run(self) -> None:
        """Pull until cancelled; what is in hand then goes to others."""
        self._broker.at_each_start(self._listen)
        async with self._broker.running(), anyio.create_task_group() as group:
            self._group = group
            await anyio.sleep_forever()

    def take(self, wish: PullRequest) -> PullAnswer:
        """Hear what to pull.

        Raises:
            InvalidInput: it is for workers of another pool.
            BrokerUnavailable: this worker does not reach the broker.
        """
        if self._group is None or not self._broker.is_up:
            raise BrokerUnavailable("this worker does not reach the broker yet")
        num_pulled = self._leases.take(wish, self._clock())
        self._slots.total_tokens = self._leases.slots
        for token in self._leases.tokens(self._clock()):
            if token not in self._pulled:
                self._pulled.add(token)
                self._group.start_soon(self._follow, token)
        return PullAnswer(pulled=num_pulled)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in hand."""
        return not self._slots.borrowed_tokens and not self._alone.locked()

    async def _listen(self) -> None:
        await self._broker.hear(cancel_subject(self._pool), self._runner.hear_cancelled)

    async def _follow(self, token: str) -> None:
        """Pull one model until its lease ends."""
        try:
            async with anyio.create_task_group() as group:
                for kind in KINDS:
                    for lane in LANES:
                        group.start_soon(self._lane, kind, lane, token)
        finally:
            self._pulled.discard(token)

    def _left_s(self, token: str) -> float:
        return 0.0 if self._is_draining() else self._leases.left_s(token, self._clock())

    async def _lane(self, kind: Kind, lane: Lane, token: str) -> None:
        take = self._work if lane == "work" else self._suspects
        while self._left_s(token) > 0:
            try:
                pull = await self._broker.pull(kind, self._pool, lane, token)
            except BrokerUnavailable:
                await anyio.sleep(PAUSE_S)
                continue
            try:
                await take(pull, kind, token)
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(LINGER_S):
                    await pull.aclose()

    async def _work(self, pull: Pull, kind: Kind, token: str) -> None:
        """Take what is new, and run as much of it side by side as there is room for."""
        async with anyio.create_task_group() as group:
            while (left_s := self._left_s(token)) > 0:
                delivery = await pull.first(min(LINGER_S, left_s))
                if delivery is None:
                    continue
                await self._start(group, delivery, kind, token)
                while room := int(self._slots.available_tokens):
                    found = await pull.more(min(room, MAX_FETCH))
                    for one in found:
                        await self._start(group, one, kind, token)
                    if not found:
                        break

    async def _start(self, group: TaskGroup, delivery: Delivery, kind: Kind, token: str) -> None:
        """Run a message as soon as there is room."""
        async with self._runner.in_hand(delivery):
            await self._slots.acquire_on_behalf_of(delivery)
        group.start_soon(self._run_one, delivery, kind, token)

    async def _run_one(self, delivery: Delivery, kind: Kind, token: str) -> None:
        try:
            await self._runner.handle(delivery, kind, "work", token)
        finally:
            self._slots.release_on_behalf_of(delivery)

    async def _suspects(self, pull: Pull, kind: Kind, token: str) -> None:
        """Take what was in the hand of a worker that ended: one at a time."""
        while (left_s := self._left_s(token)) > 0:
            delivery = await pull.first(min(LINGER_S, left_s))
            if delivery is None:
                continue
            async with self._runner.in_hand(delivery):
                await self._alone.acquire()
            try:
                await self._runner.handle(delivery, kind, "alone", token)
            finally:
                self._alone.release()
