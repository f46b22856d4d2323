"""A transport of httpx2 over plain sockets: what a small request costs is mostly its client.

For Unix sockets and for TCP without TLS. evals/LOG.md 20 has what it takes beside httpx2's own.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator

import httpx2

from sie_mcp.link import Link, head_of


class Links(httpx2.AsyncBaseTransport):
    """Connections to one server. Lives on one event loop.

    Args:
        host: And `port`, of the server; not used with `uds`.
        port: Of the server.
        uds: A Unix socket's path.
        limits: Of connections, and how long an idle one is kept.
    """

    def __init__(self, host: str, port: int, uds: str | None, limits: httpx2.Limits) -> None:
        self._host = host
        self._port = port
        self._uds = uds
        self._keep_s = limits.keepalive_expiry or 0.0
        self._max_idle = limits.max_keepalive_connections or 0
        self._free = asyncio.Semaphore(limits.max_connections or 1)
        self._idle: deque[Link] = deque()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return its answer once its headers are there.

        Raises:
            httpx2.RequestError: as httpx2's own transports do.
        """
        head = head_of(request)
        waits: dict[str, float | None] = request.extensions.get("timeout", {})
        await self._take_place(waits.get("pool"))
        link: Link | None = None
        try:
            link = self._kept() or await self._connected(waits.get("connect"))
            await link.send(head, request, waits.get("write"))
            await link.receive_head(waits.get("read"))
        except BaseException:
            if link is not None:
                link.close()
            self._free.release()
            raise
        return httpx2.Response(
            link.status,
            headers=link.headers,
            stream=_Body(self, link, waits.get("read")),
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def aclose(self) -> None:
        """Close what is idle; what is in use is closed by its exchange's end."""
        self._max_idle = 0
        while self._idle:
            self._idle.pop().close()

    def give_back(self, link: Link) -> None:
        """Take a link whose exchange has ended."""
        self._free.release()
        if not link.end():
            return
        link.idle_since_s = time.monotonic()
        self._idle.append(link)
        if len(self._idle) > self._max_idle:
            self._idle.popleft().close()

    def _kept(self) -> Link | None:
        """Return the link that was used last: the others can then grow old."""
        oldest_s = time.monotonic() - self._keep_s
        while self._idle and (self._idle[0].idle_since_s < oldest_s or not self._idle[0].is_open):
            self._idle.popleft().close()
        while self._idle:
            if (link := self._idle.pop()).is_open:
                return link
        return None

    async def _take_place(self, timeout_s: float | None) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise httpx2.PoolTimeout("too many connections are in use") from error

    async def _connected(self, timeout_s: float | None) -> Link:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                if self._uds is not None:
                    return (await loop.create_unix_connection(Link, self._uds))[1]
                return (await loop.create_connection(Link, self._host, self._port))[1]
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("the server did not take the connection") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error


class _Body(httpx2.AsyncByteStream):
    """An answer's body, which holds its link until it is closed."""

    def __init__(self, links: Links, link: Link, timeout_s: float | None) -> None:
        self._links = links
        self._link = link
        self._timeout_s = timeout_s
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._link.receive_body(self._timeout_s):
            yield part

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._links.give_back(self._link)
