"""Who works here and what they hold, whichever way a gateway finds its workers. Starts none."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio
import httpx2

from sie_mcp.answer import read_answer
from sie_mcp.connection import Address, Connections, Endpoint, FixedEndpoint
from sie_mcp.errors import SieError
from sie_mcp.gateway.pool.pool import Pool
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.queued.endpoint import QueueEndpoint
from sie_mcp.gateway.supervisor import LocalWorker
from sie_mcp.wire_memory import MemoryAccount

LOOK_TIMEOUT_S = 2.0
# However many pages are open, a worker is asked no more often.
FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker.

    Attributes:
        account: As it last gave it; None where it never did.
    """

    address: str
    is_ready: bool
    account: MemoryAccount | None


@dataclass(frozen=True, slots=True)
class SeenPool:
    """Workers that requests choose among.

    Attributes:
        waiting: Requests of this gateway that have no worker yet; None where none wait here.
        running: Requests of this gateway that have one.
    """

    name: str
    workers: Sequence[SeenWorker]
    waiting: int | None = None
    running: int | None = None


class Looks(Protocol):
    """Says what there is now."""

    async def now(self) -> Sequence[SeenPool]:
        """Return the pools; a single worker is a pool of one, or of nobody while none runs."""

    async def aclose(self) -> None:
        """Close connections."""


def looks_of(endpoint: Endpoint, worker_key: str | None) -> Looks:
    """Return what looks at the workers of an endpoint."""
    if isinstance(endpoint, Pools | QueueEndpoint):
        return PoolLooks(endpoint.pools)
    assert isinstance(endpoint, LocalWorker | FixedEndpoint)
    return OneLook(endpoint, Connections(timeout_s=LOOK_TIMEOUT_S, key=worker_key))


class PoolLooks:
    """Tells what pools know: they look themselves."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = pools

    async def now(self) -> Sequence[SeenPool]:
        """Return all pools, workers in the order of their addresses."""
        return [
            SeenPool(
                name,
                [
                    SeenWorker(url, one.is_ready, one.account)
                    for url, one in sorted(pool.watch.known.items())
                ],
                pool.num_waiting,
                pool.demand.total(),
            )
            for name, pool in self._pools.items()
        ]

    async def aclose(self) -> None:
        """Do nothing: the connections are the pools'."""


class OneLook:
    """Asks the one worker that there is.

    Args:
        endpoint: Where it is.
        connections: To ask by; closed with this.
    """

    def __init__(self, endpoint: LocalWorker | FixedEndpoint, connections: Connections) -> None:
        self._endpoint = endpoint
        self._connections = connections
        self._lock = anyio.Lock()
        self._seen: Sequence[SeenPool] = ()
        self._seen_s = -FRESH_S

    async def now(self) -> Sequence[SeenPool]:
        """Return a pool of one or of nobody."""
        async with self._lock:
            if time.monotonic() - self._seen_s >= FRESH_S:
                self._seen = [await self._look()]
                self._seen_s = time.monotonic()
            return self._seen

    async def aclose(self) -> None:
        """Close connections."""
        await self._connections.aclose()

    async def _look(self) -> SeenPool:
        if isinstance(self._endpoint, LocalWorker):
            address = await self._endpoint.find()
            if address is None:
                return SeenPool("local", [])
            return SeenPool("local", [await self._ask(address)])
        return SeenPool("worker", [await self._ask(await self._endpoint.address())])

    async def _ask(self, address: Address) -> SeenWorker:
        name = address.uds or address.base_url
        try:
            answer = await self._connections.to(address).get("/v1/memory", timeout=LOOK_TIMEOUT_S)
            return SeenWorker(name, True, read_answer(answer, MemoryAccount))
        except (httpx2.RequestError, SieError):
            return SeenWorker(name, False, None)
