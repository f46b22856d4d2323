"""A store on a Redis or Valkey server, for results and tasks of several replicas.

The one module that knows the client.
"""

import math
from collections.abc import Awaitable
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from sie_mcp.errors import SettingError, StoreUnavailable

# Other programs may use the same server.
NAMESPACE = "sie-mcp:"
MAX_CONNECTIONS = 16
TIMEOUT_S = 5.0


class RedisStore:
    """A store at a redis://, rediss:// (TLS) or unix:// URI. Nothing is opened before its use."""

    is_shared = True

    def __init__(self, uri: str) -> None:
        try:
            pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
                uri,
                max_connections=MAX_CONNECTIONS,
                timeout=TIMEOUT_S,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                health_check_interval=30,
            )
        except ValueError:
            # Its text can hold a part of the password.
            raise SettingError(
                "setting SIE_MCP_RESULTS_URI: this is no URI of a Redis or Valkey server; "
                "redis://[:PASSWORD@]HOST:PORT/DB would work, with / # ? @ of a password as "
                "%2F %23 %3F %40"
            ) from None
        self._redis = Redis(connection_pool=pool)

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value."""
        await _answer(self._redis.set(NAMESPACE + key, value, px=max(math.ceil(ttl_s * 1_000), 1)))

    async def get(self, key: str) -> bytes | None:
        """Return a key's value."""
        value: bytes | None = await _answer(self._redis.get(NAMESPACE + key))
        return value

    async def delete(self, key: str) -> None:
        """Forget a key."""
        await _answer(self._redis.delete(NAMESPACE + key))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()


async def _answer(command: Awaitable[Any]) -> Any:
    try:
        return await command
    except (RedisError, OSError) as error:
        # The error's text can hold the server's address.
        raise StoreUnavailable(
            "the store that the replicas share does not answer; try again"
        ) from error
