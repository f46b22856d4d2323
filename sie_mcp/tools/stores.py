"""Small values kept for a while under keys, in this process or where all replicas can reach them.

What did not fit an answer and the states of tasks lie here. The shared place is a Redis or Valkey
server: values that expire by themselves, read and written whole, are what it is for, every cloud
offers one, and its client (MIT, pure Python, no dependencies) is the extra `sie-mcp[redis]`. An
object store would need a sweeper and costs a request for each poll; a message broker with a
key-value side is one more thing to run. Knows neither results nor tasks.
"""

import heapq
import importlib
import time
from collections.abc import Callable
from typing import Protocol

from sie_mcp.errors import SettingError


class Store(Protocol):
    """Keeps values; whoever puts them bounds their number and size.

    Attributes:
        is_shared: Whether other replicas see the same values.
    """

    is_shared: bool

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value, from now on for `ttl_s`, in place of what the key had.

        Raises:
            StoreUnavailable: the shared place does not answer; so for every method.
        """

    async def get(self, key: str) -> bytes | None:
        """Return a key's value, or None if there is none, or not any more."""

    async def delete(self, key: str) -> None:
        """Forget a key, whether there is one or not."""

    async def aclose(self) -> None:
        """Close the connections."""


class LocalStore:
    """A store in the memory of this process.

    Args:
        clock: Seconds that only ever grow.
    """

    is_shared = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[float, bytes]] = {}
        self._ends: list[tuple[float, str]] = []

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value."""
        self._drop_expired()
        until_s = self._clock() + ttl_s
        self._values[key] = (until_s, value)
        heapq.heappush(self._ends, (until_s, key))

    async def get(self, key: str) -> bytes | None:
        """Return a key's value."""
        self._drop_expired()
        _, value = self._values.get(key, (0.0, None))
        return value

    async def delete(self, key: str) -> None:
        """Forget a key."""
        self._values.pop(key, None)

    async def aclose(self) -> None:
        """Do nothing: the values live as long as the process."""

    def _drop_expired(self) -> None:
        now_s = self._clock()
        while self._ends and self._ends[0][0] <= now_s:
            until_s, key = heapq.heappop(self._ends)
            # A value that was put again ends later, one that was deleted has ended.
            if self._values.get(key, (0.0, b""))[0] == until_s:
                del self._values[key]


def open_store(uri: str | None) -> Store:
    """Return the store at a redis://, rediss:// or unix:// URI; without one, this process's own.

    Raises:
        SettingError: the client is not installed, or the URI is not one that it reads.
    """
    if uri is None:
        return LocalStore()
    try:
        shared = importlib.import_module("sie_mcp.tools.redis_store")
    except ModuleNotFoundError as error:
        raise SettingError(
            "setting SIE_MCP_RESULTS_URI needs the Redis client; run: pip install 'sie-mcp[redis]'"
        ) from error
    store: Store = shared.RedisStore(uri)
    return store
