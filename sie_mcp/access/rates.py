"""How much each caller had in the last minute, counted here or in a store that replicas share."""

import importlib
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

from sie_mcp import metrics
from sie_mcp.access.principal import Principal
from sie_mcp.errors import RateLimited, SettingError

logger = logging.getLogger(__name__)

MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0
STORE_TIMEOUT_S = 2.0
# After a failure the store is left alone for so long.
STORE_REST_S = 10.0


class Rates:
    """Counts and refuses. Safe for many tasks of one loop.

    Where the shared store does not answer, each replica counts for itself meanwhile: a limit is
    then that many times as high, but calls go on.

    Args:
        storage: memory://, or redis://host:port/db for all replicas.

    Raises:
        SettingError: no such storage.
    """

    def __init__(self, storage: str = "memory://") -> None:
        self._own = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._shared = _open(storage)
        self._rests_until_s = 0.0
        self._running: Counter[str] = Counter()

    async def count_request(self, principal: Principal) -> None:
        """Count one request.

        Raises:
            RateLimited: one too many.
        """
        limit = principal.limits.requests_per_minute
        await self._count(principal, "requests", limit, 1)

    async def count_tokens(self, principal: Principal, num_tokens: int) -> None:
        """Count tokens that are about to be sent; more than a minute's worth count as that.

        Raises:
            RateLimited: too many.
        """
        limit = principal.limits.tokens_per_minute
        await self._count(principal, "tokens", limit, max(num_tokens, 1))

    @contextmanager
    def running(self, principal: Principal) -> Iterator[None]:
        """Count a request while it runs, in this process.

        Raises:
            RateLimited: too many run already.
        """
        limit = principal.limits.max_concurrent
        if limit is not None and self._running[principal.name] >= limit:
            raise _refusal("concurrent", f"{limit} calls at once", MIN_RETRY_S)
        self._running[principal.name] += 1
        try:
            yield
        finally:
            self._running[principal.name] -= 1
            if not self._running[principal.name]:
                del self._running[principal.name]

    async def aclose(self) -> None:
        """Close connections to the store."""
        if self._shared is not None:
            await self._shared.pool.disconnect()

    async def _count(self, principal: Principal, kind: str, limit: int | None, cost: int) -> None:
        if limit is None:
            return
        item = RateLimitItemPerMinute(limit, namespace=f"sie-{kind}")
        wait_s = await self._hit(item, principal.name, min(cost, limit))
        if wait_s is not None:
            raise _refusal(kind, f"{limit:,} {kind} a minute", wait_s)

    async def _hit(self, item: RateLimitItemPerMinute, name: str, cost: int) -> float | None:
        """Return None where there is room, else for how many seconds there is none."""
        if self._shared is not None and time.monotonic() >= self._rests_until_s:
            try:
                with anyio.fail_after(STORE_TIMEOUT_S):
                    return await _hit(self._shared.limiter, item, name, cost)
            except (StorageError, TimeoutError) as error:
                self._rests_until_s = time.monotonic() + STORE_REST_S
                logger.warning("each replica counts for itself now, the store fails: %s", error)
        return await _hit(self._own, item, name, cost)


async def _hit(
    limiter: SlidingWindowCounterRateLimiter, item: RateLimitItemPerMinute, name: str, cost: int
) -> float | None:
    if await limiter.hit(item, name, cost=cost):
        return None
    stats = await limiter.get_window_stats(item, name)
    # The time of the next single one; what costs more waits for its part of the minute.
    missing_s = max(cost - stats.remaining, 0) / item.amount * MAX_RETRY_S
    wait_s = max(stats.reset_time - time.time(), missing_s)
    return min(max(wait_s, MIN_RETRY_S), MAX_RETRY_S)


def _refusal(reason: str, limit: str, wait_s: float) -> RateLimited:
    metrics.LIMITED.labels(reason).inc()
    return RateLimited(f"your limit is {limit}; try again in {wait_s:.0f} s", retry_after_s=wait_s)


class _Shared:
    """A store on a Redis server, and its connections."""

    def __init__(self, url: str) -> None:
        try:
            redis = importlib.import_module("redis.asyncio")
            self.pool = redis.ConnectionPool.from_url(
                url, socket_timeout=STORE_TIMEOUT_S, socket_connect_timeout=STORE_TIMEOUT_S
            )
        except ModuleNotFoundError as error:
            raise SettingError(
                "limit_storage needs a library; run: pip install 'sie-mcp[redis]'"
            ) from error
        except ValueError as error:
            # Its text may hold a password.
            raise SettingError("limit_storage: this is no URL of a Redis server") from error
        storage = RedisStorage(
            f"async+{url}",
            wrap_exceptions=True,
            implementation="redispy",
            connection_pool=self.pool,
        )
        self.limiter = SlidingWindowCounterRateLimiter(storage)


def _open(storage: str) -> _Shared | None:
    scheme, separator, _ = storage.partition("://")
    if storage == "memory://":
        return None
    if not separator or scheme not in ("redis", "rediss"):
        raise SettingError(
            f"limit_storage: {scheme[:20]!r} is no storage; "
            "memory:// or redis://HOST:PORT/DB would work"
        )
    return _Shared(storage)
