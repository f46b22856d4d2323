"""The connection to a NATS server: kept up for ever, its errors in our words, its address unsaid.

Knows the client; knows no stream.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import anyio
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from sie_mcp.errors import BacklogFull, BrokerUnavailable

logger = logging.getLogger(__name__)

RETRY_S = 0.25
CONNECT_S = 2
REQUEST_S = 5.0
PING_S = 10
# "maximum messages exceeded", "maximum bytes exceeded": a stream that refuses what is new.
_IS_FULL = 10077


class Link:
    """One connection.

    Args:
        uri: Of the server, its credentials in it if it has any.
        name: By which the server lists this process.
    """

    def __init__(self, uri: str, name: str) -> None:
        self._uri = uri
        self._name = name
        self.host = shown(uri)
        self.client = Client()
        self._starts: list[Callable[[], Awaitable[None]]] = []
        self._has_started = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether the server can be reached now."""
        return self.client.is_connected

    @property
    def streams(self) -> JetStreamContext:
        """The client's own door to streams."""
        return self.client.jetstream(timeout=REQUEST_S)

    def at_each_start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done whenever the connection is there, or there again."""
        self._starts.append(work)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up the connection."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._connect)
            group.start_soon(self._follow)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True), anyio.move_on_after(CONNECT_S):
                    await self._close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Ask the server inside this.

        Raises:
            BacklogFull: a stream holds as much as it may.
            BrokerUnavailable: the server does not answer, or not well.
        """
        if not self.is_up:
            raise BrokerUnavailable(f"{self.host} cannot be reached; call again", retry_after_s=1.0)
        try:
            yield
        except nats.js.errors.APIError as error:
            if error.err_code == _IS_FULL:
                raise BacklogFull(
                    "the pool's stream holds as many requests as it may (queue_max_messages, "
                    "queue_max_bytes); call again",
                    retry_after_s=1.0,
                ) from error
            raise BrokerUnavailable(
                f"{self.host} refused ({error.description}); call again", retry_after_s=1.0
            ) from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise BrokerUnavailable(
                f"{self.host} does not answer ({type(error).__name__}); call again",
                retry_after_s=1.0,
            ) from error

    async def _connect(self) -> None:
        """Try until it is there; from then on the client keeps it up by itself."""
        has_warned = False
        while True:
            try:
                await self.client.connect(
                    [self._uri],
                    name=self._name,
                    error_cb=self._on_error,
                    reconnected_cb=self._on_start,
                    connect_timeout=CONNECT_S,
                    reconnect_time_wait=RETRY_S,  # type: ignore[arg-type]
                    max_reconnect_attempts=-1,
                    ping_interval=PING_S,
                )
            except (nats.errors.Error, OSError, TimeoutError) as error:
                if not has_warned:
                    logger.warning(
                        "%s cannot be reached error=%s; trying again", self.host, _kind(error)
                    )
                has_warned = True
                await anyio.sleep(RETRY_S)
            else:
                logger.info("%s is there", self.host)
                self._has_started.set()
                return

    async def _follow(self) -> None:
        """Do what is to be done at each start; again until it is done."""
        while True:
            await self._has_started.wait()
            self._has_started.clear()
            for work in self._starts:
                await self._do(work)

    async def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self._has_started.is_set():
            try:
                await work()
            except (BrokerUnavailable, BacklogFull) as error:
                logger.warning("%s", error)
                await anyio.sleep(RETRY_S)
            else:
                return

    async def _close(self) -> None:
        try:
            await self.client.close()
        except (nats.errors.Error, OSError) as error:
            logger.debug("the connection was not closed well error=%s", _kind(error))

    async def _on_start(self) -> None:
        self._has_started.set()

    async def _on_error(self, error: Exception) -> None:
        logger.warning("%s error=%s", self.host, _kind(error))


def shown(uri: str) -> str:
    """Return what may be said of a broker's address: never its credentials."""
    url = urlsplit(uri)
    host = url.hostname or "?"
    return f"the broker at {host}:{url.port}" if url.port else f"the broker at {host}"


def _kind(error: BaseException) -> str:
    """A client's message may hold the whole address."""
    return type(error).__name__
