"""Workers by two ways as one endpoint: by the broker what may wait, directly all else."""

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Literal

import anyio

from sie_mcp.broker.broker import Broker
from sie_mcp.broker.names import token_of
from sie_mcp.connection import ANYTHING, Address, Connections, Want
from sie_mcp.errors import InvalidInput
from sie_mcp.gateway.pool.plan import Plan
from sie_mcp.gateway.pool.pool import Pool
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.queued.burier import Burier
from sie_mcp.gateway.queued.leases import Leases
from sie_mcp.gateway.queued.sender import Sender
from sie_mcp.gateway.queued.transport import QueueTransport

logger = logging.getLogger(__name__)

Which = Literal["bulk", "all", "asked"]
# Every address by the broker has this for its URL; the way is the address's own.
BASE_URL = "http://queue"


class QueueEndpoint:
    """Pools whose workers also pull.

    Args:
        direct: The pools.
        plan: Which models are whose.
        broker: The other way.
        connections: For telling workers what to pull.
        which: Goes by the broker where the caller does not say.
        gateways: How many there are.
    """

    chooses = True

    def __init__(
        self,
        direct: Pools,
        plan: Plan,
        broker: Broker,
        connections: Connections,
        *,
        which: Which = "bulk",
        gateways: int = 1,
    ) -> None:
        self.pools = direct.pools
        self.broker = broker
        self._direct = direct
        self._which = which
        self.sender = Sender(broker)
        self._leases = {
            name: Leases(
                pool,
                broker,
                connections,
                slots=plan.pools[name].slots,
                gateways=gateways,
                stays=[token for model in plan.models_of(name) if (token := token_of(model))],
            )
            for name, pool in self.pools.items()
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up with workers and broker. Without the broker what is direct goes on."""
        for leases in self._leases.values():
            self.broker.at_each_start(leases.prepare)
        self.broker.at_each_start(self.sender.start)
        async with (
            self._direct.running(),
            self.broker.running(),
            anyio.create_task_group() as group,
        ):
            for name, leases in self._leases.items():
                group.start_soon(leases.run)
                group.start_soon(Burier(self.broker, name).run)
            yield
            group.cancel_scope.cancel()

    async def address(self, want: Want = ANYTHING) -> Address:
        """Return the broker's way for what goes by it; else a worker.

        Raises:
            SieError: as the pools say; BrokerUnavailable.
        """
        found = self.place(want) if self._goes_by_broker(want) else None
        if found is None:
            return await self._direct.address(want)
        pool, token = found
        await self.expect(pool, token)
        return Address(BASE_URL, transport=QueueTransport(self.sender, pool.name, token))

    def place(self, want: Want) -> tuple[Pool, str] | None:
        """Return pool and token of a request; None where its model's name is too long for one.

        Raises:
            InvalidInput: no such pool.
        """
        key = self._direct.key_of(want)
        token = token_of(key.model, key.lora)
        return None if token is None else (self._direct.pool_of(want), token)

    async def expect(self, pool: Pool, token: str) -> None:
        """Have workers pull what is about to be sent.

        Raises:
            BrokerUnavailable: the broker does not answer.
        """
        await self._leases[pool.name].want(token)

    def done(self, address: Address, want: Want = ANYTHING) -> None:
        """Hear that a request has its answer."""
        if address.transport is None:
            self._direct.done(address, want)

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        """Hear that a worker did not answer."""
        if address.transport is None:
            await self._direct.lost(address, want)

    def learn(self, want: Want, name: str | None) -> None:
        """Hear under which one name a worker keeps what was asked for by another."""
        self._direct.learn(want, name)

    def held(self, address: Address, scope: anyio.CancelScope) -> AbstractContextManager[None]:
        """Cancel the scope if the worker falls silent; the broker hands on what it has."""
        return self._direct.held(address, scope) if address.transport is None else nullcontext()

    def _goes_by_broker(self, want: Want) -> bool:
        if want.transport not in (None, "direct", "queue"):
            raise InvalidInput(
                f"X-SIE-Transport {want.transport[:40]!r} is neither direct nor queue"
            )
        if not want.priority or want.transport is not None:
            return bool(want.priority) and want.transport == "queue"
        return self._which == "all" or (self._which == "bulk" and want.priority == "bulk")
