"""Whether a gateway should be sent requests, as far as that depends on its workers.

A worker at `worker_url` is the only one there is, and nothing here starts it: while it is gone,
whoever spreads requests does better to send them to another gateway, and an operator to hear of it.
Pools stay ready without a worker, however their workers are named: they may sleep, requests are
what wakes them, and a gateway that is sent none would never wake any. The same holds for the local
worker, which the gateway starts itself. What there is of workers is said in either case.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import httpx2

from sie_mcp import metrics
from sie_mcp.connection import Address, Connections, Endpoint, FixedEndpoint
from sie_mcp.gateway.pool.pool import Pool
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.proxy import RESTART_WAIT_S
from sie_mcp.gateway.queued.endpoint import QueueEndpoint

logger = logging.getLogger(__name__)

# As a kubelet asks a gateway.
LOOK_EVERY_S = 2.0
LOOK_TIMEOUT_S = 2.0
# A worker that is lost is gone for longer than requests wait for one that restarts.
LOST_AFTER_S = RESTART_WAIT_S
# A probe that comes before the first look ended waits for it: a kubelet's has two seconds.
FIRST_LOOK_S = 1.0
POOL = "worker"

Counts = dict[str, dict[str, int]]


class Readiness(Protocol):
    """Knows a gateway's workers."""

    async def is_lost(self) -> bool:
        """Whether no request can be answered, and none would help."""

    def counts(self) -> Counts:
        """Return how many workers each pool has, and how many of them are ready."""

    async def aclose(self) -> None:
        """Close connections."""


def readiness_of(endpoint: Endpoint, worker_key: str | None) -> "Readiness":
    """Return what knows the workers of an endpoint."""
    if isinstance(endpoint, Pools | QueueEndpoint):
        return SleepingPools(endpoint.pools)
    if isinstance(endpoint, FixedEndpoint):
        return OneAddress(endpoint, Connections(timeout_s=LOOK_TIMEOUT_S, key=worker_key))
    return SleepingPools({})


@asynccontextmanager
async def watched(readiness: Readiness) -> AsyncIterator[None]:
    """Look at the worker for the length of the block, where somebody has to."""
    if not isinstance(readiness, OneAddress):
        yield
        return
    async with anyio.create_task_group() as group:
        group.start_soon(readiness.run)
        yield
        group.cancel_scope.cancel()


class SleepingPools:
    """Pools, which look at their workers themselves; none for a worker that is started here."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = pools

    async def is_lost(self) -> bool:
        """Never: a request wakes them."""
        return False

    def counts(self) -> Counts:
        """Return them as they are known."""
        return {
            name: {
                "known": len(pool.watch.known),
                "ready": sum(one.is_ready for one in pool.watch.known.values()),
            }
            for name, pool in self._pools.items()
        }

    async def aclose(self) -> None:
        """Do nothing: the connections are the pools'."""


class OneAddress:
    """The worker at a known address, asked now and then whether it is there.

    Args:
        endpoint: Where it is.
        connections: To ask by; closed with this.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        endpoint: FixedEndpoint,
        connections: Connections,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint, self._connections = endpoint, connections
        self._clock = clock
        self._has_looked = anyio.Event()
        self._answers: bool | None = None
        # One that never answered is not one that restarts.
        self._heard_s: float | None = None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await anyio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Ask once, and say so in the figures; log only what changed."""
        address = await self._endpoint.address()
        answers = await self._ask(address)
        if answers is not self._answers:
            logger.log(
                logging.INFO if answers else logging.WARNING,
                "%s %s", address, "answers" if answers else "does not answer",
            )  # fmt: skip
        self._answers = answers
        if answers:
            self._heard_s = self._clock()
        metrics.POOL_WORKERS.labels(POOL, "known").set(1)
        metrics.POOL_WORKERS.labels(POOL, "ready").set(answers)
        self._has_looked.set()

    async def is_lost(self) -> bool:
        """Whether it never answered, or not for longer than requests wait for it."""
        with anyio.move_on_after(FIRST_LOOK_S):
            await self._has_looked.wait()
        return self._heard_s is None or (
            not self._answers and self._clock() - self._heard_s > LOST_AFTER_S
        )

    def counts(self) -> Counts:
        """Return it as it was last seen."""
        return {POOL: {"known": 1, "ready": int(bool(self._answers))}}

    async def aclose(self) -> None:
        """Close connections."""
        await self._connections.aclose()

    async def _ask(self, address: Address) -> bool:
        try:
            answer = await self._connections.to(address).get("/readyz", timeout=LOOK_TIMEOUT_S)
        except httpx2.RequestError:
            return False
        # One that preloads takes calls.
        return answer.status_code == 200 or b"preloading" in answer.content
