"""Tells workers what to pull, every few seconds and at once when something new is asked for.

A worker pulls what some gateway told it to of late, and nothing else: so the requests for a model
go to its owners, and those of a gateway that is gone go on being pulled for a while, then by what
another gateway sees in the streams.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import httpx2

from sie_mcp import metrics
from sie_mcp.broker.broker import Broker
from sie_mcp.broker.names import model_of
from sie_mcp.broker.pull_request import MAX_TOKENS, PATH, PullRequest
from sie_mcp.connection import Connections
from sie_mcp.errors import SieError
from sie_mcp.gateway.pool.demand import Demand
from sie_mcp.gateway.pool.keys import Key
from sie_mcp.gateway.pool.picker import Seen
from sie_mcp.gateway.pool.pool import Pool
from sie_mcp.gateway.queued.owners import as_demand, owners

logger = logging.getLogger(__name__)

ROUND_S = 2.0
# Three rounds may fail before a worker stops.
LEASE_S = 8.0
# A model that nothing waits for any more goes on being pulled: the next request is on its way.
KEEP_S = 30.0
# Consumers are made again so often: somebody may have deleted them.
PREPARE_S = 60.0
TELL_TIMEOUT_S = 2.0


@dataclass(slots=True)
class _Model:
    """What is known of one model of a pool."""

    wanted_s: float = -math.inf
    prepared_s: float = -math.inf
    held: list[str] = field(default_factory=list)


class Leases:
    """Who pulls what, of one pool.

    Args:
        pool: Its workers.
        broker: Says what waits.
        connections: To the workers.
        slots: Requests that a worker runs well side by side.
        gateways: How many tell the workers; a scaler adds up what they say.
        stays: Models whose consumers are always there.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        pool: Pool,
        broker: Broker,
        connections: Connections,
        *,
        slots: int,
        gateways: int = 1,
        stays: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._broker = broker
        self._connections = connections
        self._slots = slots
        self._gateways = gateways
        self._stays = frozenset(stays)
        self._clock = clock
        # What waits is seen by all gateways alike: here there is no share.
        self._demand = Demand()
        self._models: dict[str, _Model] = {}
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Tell the workers until cancelled."""
        while True:
            changed = self._changed
            with suppress(SieError):
                await self.round()
            with anyio.move_on_after(ROUND_S):
                await changed.wait()

    async def prepare(self) -> None:
        """Make what the broker may have lost: the pool's streams, and its models' consumers."""
        await self._broker.prepare(self._pool.name)
        for model in self._models.values():
            model.prepared_s = -math.inf
        for token in self._stays:
            await self._prepare(token)
        self._wake()

    async def want(self, token: str) -> None:
        """Hear that a request for a model is about to be sent: who pulls it is told now."""
        model = self._models.setdefault(token, _Model())
        model.wanted_s = self._clock()
        await self._prepare(token)
        if not model.held:
            self._wake()

    async def round(self) -> None:
        """See what waits, and tell every worker what to pull."""
        backlog = await self._broker.backlog(self._pool.name)
        now_s = self._clock()
        for token, count in backlog.items():
            self._models.setdefault(token, _Model()).wanted_s = now_s
            await self._prepare(token)
            self._demand.show(Key(*model_of(token)), as_demand(count, self._slots), now_s)
        total = sum(backlog.values())
        metrics.QUEUE_PENDING.labels(self._pool.name).set(total)
        self._pool.queued = math.ceil(total / self._gateways)
        self._forget(now_s)
        await self._tell(self._plan(backlog, now_s))

    def _plan(self, backlog: dict[str, int], now_s: float) -> dict[str, list[str]]:
        """Return the tokens of each worker."""
        seen = self._pool.seen()
        plan: dict[str, list[str]] = {name: [] for name in seen}
        for token, model in sorted(self._models.items()):
            key = Key(*model_of(token))
            if token not in backlog:
                self._demand.show(key, 0, now_s)
            model.held = self._owners(key, seen, model.held, now_s)
            for name in model.held:
                plan[name].append(token)
        return plan

    def _owners(self, key: Key, seen: dict[str, Seen], held: list[str], now_s: float) -> list[str]:
        copies = self._demand.copies(key, self._slots, max(len(seen), 1), now_s)
        return owners(key, seen, copies, held)

    async def _tell(self, plan: dict[str, list[str]]) -> None:
        async with anyio.create_task_group() as group:
            for name, tokens in plan.items():
                known = self._pool.watch.known.get(name)
                if known is not None and tokens:
                    group.start_soon(self._tell_one, name, tokens[:MAX_TOKENS])

    async def _tell_one(self, name: str, tokens: list[str]) -> None:
        wish = PullRequest(
            pool=self._pool.name,
            tokens=tokens,
            lease_s=LEASE_S,
            ack_wait_s=self._broker.bounds.ack_wait_s,
            slots=self._slots,
        )
        client = self._connections.to(self._pool.watch.known[name].address)
        try:
            answer = await client.post(PATH, json=wish.model_dump(), timeout=TELL_TIMEOUT_S)
        except httpx2.RequestError as error:
            logger.debug("%s was not told what to pull error=%s", name, type(error).__name__)
            return
        if answer.status_code >= 400:
            logger.warning(
                "%s does not pull status=%d: is its queue_uri set, and its queue_pool %s?",
                name, answer.status_code, self._pool.name,
            )  # fmt: skip

    async def _prepare(self, token: str) -> None:
        model = self._models.setdefault(token, _Model())
        if self._clock() - model.prepared_s < PREPARE_S:
            return
        await self._broker.prepare_model(self._pool.name, token, stays=token in self._stays)
        model.prepared_s = self._clock()

    def _forget(self, now_s: float) -> None:
        for token, model in list(self._models.items()):
            if now_s - model.wanted_s > KEEP_S:
                del self._models[token]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
