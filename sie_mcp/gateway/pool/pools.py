"""All pools as one endpoint: which pool a request waits in, and for how long.

Lives on one event loop. A pool that sleeps is no error: requests wait for it, and by their number
whoever scales it sees that it is wanted.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from urllib.parse import unquote

import anyio

from sie_mcp.connection import ANYTHING, Address, Connections, Want
from sie_mcp.errors import InvalidInput, WorkerUnavailable
from sie_mcp.gateway.pool.endpoint_slices import read_service
from sie_mcp.gateway.pool.keys import Key
from sie_mcp.gateway.pool.kubernetes_api import ApiServer
from sie_mcp.gateway.pool.members import Members, make_members
from sie_mcp.gateway.pool.plan import Plan, PoolPlan
from sie_mcp.gateway.pool.pool import Pool, PoolLimits
from sie_mcp.gateway.pool.service_members import ServiceMembers

# An alias and the name that a worker gave for it.
MAX_NAMES = 4_096


class Pools:
    """The pools of a plan.

    Args:
        plan: Which there are.
        connections: For looks and wishes; requests have others.
        max_waiting: Requests that may wait in one pool.
        hold_s: The longest that one waits for a worker.
        gateways: How many there are.
        api: Of Kubernetes, for pools whose workers are a Service's.

    Raises:
        SettingError: a pool's workers cannot be found by what the plan says.
    """

    chooses = True

    def __init__(
        self,
        plan: Plan,
        connections: Connections,
        *,
        max_waiting: int = 1_024,
        hold_s: float = 120.0,
        gateways: int = 1,
        api: ApiServer | None = None,
    ) -> None:
        self.plan = plan
        self._hold_s = hold_s
        self._connections = connections
        self._names: OrderedDict[str, str] = OrderedDict()
        self._given: dict[tuple[str, Want], list[Key]] = {}
        self.pools = {
            name: Pool(
                name,
                _members(one, api or ApiServer()),
                connections,
                PoolLimits(one.slots, max_waiting),
                gateways=gateways,
            )
            for name, one in plan.pools.items()
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up with all workers."""
        async with anyio.create_task_group() as group:
            for pool in self.pools.values():
                group.start_soon(pool.run)
            yield
            group.cancel_scope.cancel()
        await self._connections.aclose()

    async def address(self, want: Want = ANYTHING) -> Address:
        """Return a worker of the request's pool, when there is one.

        Raises:
            InvalidInput: no such pool.
            QueueFull: too many wait for it already.
            WorkerUnavailable: none came in time, or all failed this request.
        """
        pool = self.pool_of(want)
        with anyio.move_on_after(self._hold_s):
            address, key = await pool.address(self.key_of(want), want.tried, want.among)
            self._given.setdefault((address.base_url, want), []).append(key)
            return address
        raise WorkerUnavailable(
            f"no worker of pool {pool.name} was free within {self._hold_s:g} s (hold_s); "
            "call again",
            retry_after_s=10.0,
        )

    def next_best(self, address: Address, want: Want, count: int) -> list[Address]:
        """Return who should get a request if the worker that was chosen fails it, best first."""
        pool = next((one for one in self.pools.values() if one.has(address)), None)
        return [] if pool is None else pool.next_best(address, self.key_of(want), want.among, count)

    def done(self, address: Address, want: Want = ANYTHING) -> None:
        """Hear that a request has its answer."""
        self._end(address, want, is_lost=False)

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        """Hear that a worker did not answer."""
        self._end(address, want, is_lost=True)

    def learn(self, want: Want, name: str | None) -> None:
        """Hear under which one name a worker keeps what was asked for by another."""
        asked, name = want.model, unquote(name or "")
        if not asked or not name or self._names.get(asked, asked) == name:
            return
        self._names[asked] = name
        self._names.move_to_end(asked)
        for pool in self.pools.values():
            pool.rename(asked, name)
        if len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)

    def held(self, address: Address, scope: anyio.CancelScope) -> AbstractContextManager[None]:
        """Cancel the scope if the worker falls silent during the block."""
        pool = next((one for one in self.pools.values() if one.has(address)), None)
        return pool.watch.in_hand.held(address.base_url, scope) if pool else nullcontext()

    def _end(self, address: Address, want: Want, *, is_lost: bool) -> None:
        keys = self._given.get((address.base_url, want), [])
        pool = next((one for one in self.pools.values() if one.has(address)), None)
        if pool is not None and keys:
            pool.done(address, keys.pop(), is_lost=is_lost)
        if not keys:
            self._given.pop((address.base_url, want), None)

    def pool_of(self, want: Want) -> Pool:
        """Return the first pool of the request's that has room; else the first, to wait in.

        Raises:
            InvalidInput: no such pool.
        """
        try:
            names = self.plan.pools_of(want.model, want.pool)
        except KeyError as error:
            known = ", ".join(self.pools)
            raise InvalidInput(f"X-SIE-Pool: no pool {want.pool!r}; there are: {known}") from error
        pools = [self.pools[name] for name in names]
        return next((pool for pool in pools if pool.has_room), pools[0])

    def key_of(self, want: Want) -> Key:
        """Return what a request is routed by: the one name of what it asks for."""
        return Key(self._names.get(want.model, want.model), want.lora)


def _members(plan: PoolPlan, api: ApiServer) -> Members:
    if plan.service is None:
        return make_members(plan.workers)
    return ServiceMembers(read_service(plan.service), api.checked())
