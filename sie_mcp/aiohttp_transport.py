"""httpx2's requests over aiohttp's connections, which are read and written in C.

For plain sockets of our own servers; TLS and proxies are left to httpx2's. A small request takes
half the processor time of httpx2's own connections, and a third where no httpx2 client stands
before it (evals/LOG.md 20). Lives on asyncio, one event loop.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import httpx2
from yarl import URL

# More than a worker's head ever has.
MAX_HEAD_BYTES = 64 * 1024
# A smaller body fits what the system keeps for a socket, whether or not its reader reads.
PIECE_BYTES = 64 * 1024
# aiohttp adds them where they are missing; a gateway hands on what its caller said.
_NOT_ADDED = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
# Of an answer, before its reader wants it; what one read of a socket brings comes on top.
READ_AHEAD_BYTES = 16 * 1024
_HTTP_1_1 = {"http_version": b"HTTP/1.1"}
# The first that fits.
_NAMES: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.SocketTimeoutError, httpx2.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.NonHttpUrlClientError, httpx2.UnsupportedProtocol),
    (aiohttp.ClientOSError, httpx2.ReadError),
    (ConnectionError, httpx2.ReadError),
    (aiohttp.ClientError, httpx2.RemoteProtocolError),
)

_LATE: dict[type[httpx2.TimeoutException], str] = {
    httpx2.WriteTimeout: "the request is not being read",
    httpx2.ReadTimeout: "nothing but interim answers came",
}

Limits = Mapping[str, float | None]
Content = bytes | AsyncIterable[bytes] | None


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Connections to one server.

    Args:
        limits: Connections at once, and how long one is kept that nobody uses.
        uds: A Unix socket, in the place of the host that requests name.
    """

    def __init__(self, limits: httpx2.Limits, uds: str | None = None) -> None:
        self._uds = uds
        self._keep_s = limits.keepalive_expiry or 0.0
        self._places = asyncio.Semaphore(limits.max_connections or 2**31)
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of httpx2's: `ask`."""
        try:
            content: Content = request.content
        except httpx2.RequestNotRead:
            assert isinstance(request.stream, AsyncIterable)
            content = request.stream
        answer = await self.ask(
            request.method,
            str(request.url),
            request.headers.multi_items(),
            content,
            request.extensions.get("timeout", {}),
        )
        answer.request = request
        return answer

    async def ask(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        content: Content,
        limits_s: Limits,
    ) -> httpx2.Response:
        """Send a request and return its answer, whose body comes while it is read.

        Args:
            method: Of HTTP.
            url: Escaped.
            headers: All but the host, and how the body is framed where no length is given.
            content: The body.
            limits_s: Seconds for "pool" (a place among the connections), "connect", "write" and
                "read" (each a piece, and all heads that come before the answer's own); none: for
                ever.

        Raises:
            TransportError: as httpx2 names what went wrong.
            Exception: what a body raised that comes in pieces.
        """
        await self._take_place(limits_s.get("pool"))
        try:
            sent = _Sent(content, limits_s)
            with _named(sent):
                answer = await self._send(method, url, headers, sent, limits_s)
        except BaseException:
            self._places.release()
            raise
        body = _Body(answer, self._places)
        if not _is_framed(answer):
            await body.aclose()
            raise httpx2.RemoteProtocolError("the answer does not say where it ends")
        return httpx2.Response(
            answer.status, headers=list(answer.raw_headers), stream=body, extensions=_HTTP_1_1
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _send(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        sent: "_Sent",
        limits_s: Limits,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = self._open()
        async with sent.in_time():
            return await self._session.request(
                method,
                URL(url, encoded=True),
                headers=[one for one in headers if one[0].lower() != "transfer-encoding"],
                data=sent.data,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    sock_connect=limits_s.get("connect"), sock_read=limits_s.get("read")
                ),
            )

    async def _take_place(self, limit_s: float | None) -> None:
        if not self._places.locked():
            await self._places.acquire()  # At once.
            return
        try:
            async with asyncio.timeout(limit_s):
                await self._places.acquire()
        except TimeoutError as error:
            raise httpx2.PoolTimeout("all connections are in use") from error

    def _open(self) -> aiohttp.ClientSession:
        keep: dict[str, float] = {"keepalive_timeout": self._keep_s}
        connector: aiohttp.BaseConnector = (
            aiohttp.TCPConnector(limit=0, **keep)  # type: ignore[arg-type]
            if self._uds is None
            else aiohttp.UnixConnector(self._uds, limit=0, **keep)  # type: ignore[arg-type]
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_ADDED,
            auto_decompress=False,
            read_bufsize=READ_AHEAD_BYTES,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
        )


class _Sent:
    """A request's body on its way, in pieces where it is long, and the wait for an answer's head.

    Each piece has its time, and so has all that comes before the head: aiohttp's own limit ends
    with the first interim answer (1xx), of which a server may send as many as it likes.
    """

    def __init__(self, content: Content, limits_s: Limits) -> None:
        self._content = content
        self._limits_s = limits_s
        self._clock: asyncio.Timeout | None = None
        self._late: type[httpx2.TimeoutException] = httpx2.ReadTimeout
        self.failure: BaseException | None = None
        self.data: object = content or None
        if not isinstance(content, bytes | None) or len(content or b"") > PIECE_BYTES:
            self.data = self._pieces()

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Give up when a piece has been on its way for too long, or the head.

        Raises:
            WriteTimeout: a piece was.
            ReadTimeout: the head was.
        """
        clock = self._clock = asyncio.timeout(None)
        try:
            async with clock:
                if not isinstance(self.data, AsyncIterator):
                    # At once on its way, but for the connection.
                    read_s, connect_s = self._limits_s.get("read"), self._limits_s.get("connect")
                    if read_s is not None and connect_s is not None:
                        self._start(read_s + connect_s, httpx2.ReadTimeout)
                yield
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise self._late(_LATE[self._late]) from error
        finally:
            self._clock = None

    async def _pieces(self) -> AsyncIterator[bytes | memoryview]:
        try:
            async for piece in self._parts():
                self._start(self._limits_s.get("write"), httpx2.WriteTimeout)
                yield piece
                self._start(None, httpx2.WriteTimeout)
            self._start(self._limits_s.get("read"), httpx2.ReadTimeout)
        except Exception as error:
            self.failure = error
            raise

    async def _parts(self) -> AsyncIterator[bytes | memoryview]:
        if isinstance(self._content, bytes):
            view = memoryview(self._content)
            for start in range(0, len(view), PIECE_BYTES):
                yield view[start : start + PIECE_BYTES]
        elif self._content is not None:
            async for part in self._content:
                yield part

    def _start(self, seconds: float | None, late: type[httpx2.TimeoutException]) -> None:
        """Say when to give up, and what to call that."""
        if self._clock is not None and not self._clock.expired():
            at_s = asyncio.get_running_loop().time() + seconds if seconds is not None else None
            self._clock.reschedule(at_s)
            self._late = late


class _Body(httpx2.AsyncByteStream):
    """An answer's body; has a place among the connections until it is closed."""

    def __init__(self, answer: aiohttp.ClientResponse, places: asyncio.Semaphore) -> None:
        self._answer = answer
        self._places: asyncio.Semaphore | None = places

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _named():
            async for piece in self._answer.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        if self._places is not None:
            self._places.release()
            self._places = None
        # A connection whose answer was read to its end has been given back already.
        self._answer.close()


def _is_framed(answer: aiohttp.ClientResponse) -> bool:
    """Whether an answer that breaks off can be told from one that ends; servers of ours see to it.

    aiohttp takes a reset for the end of an answer that has no length. No other protocol is spoken.
    """
    if answer.status < 200:
        return False
    headers = answer.headers
    has_body = answer.method != "HEAD" and answer.status not in (204, 304)
    return not has_body or "Content-Length" in headers or "Transfer-Encoding" in headers


@contextmanager
def _named(sent: _Sent | None = None) -> Iterator[None]:
    """Raise errors of aiohttp by the names of httpx2, and those of the body that is sent."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        if sent is not None and sent.failure is not None:
            raise sent.failure from None
        name = next((name for kind, name in _NAMES if isinstance(error, kind)), None)
        if name is None:
            raise
        raise name(str(error) or type(error).__name__) from error
    except ValueError as error:
        # A header's value, or a method, that would be more than one.
        raise httpx2.LocalProtocolError(str(error)) from error
