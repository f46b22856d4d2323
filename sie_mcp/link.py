"""One open connection to a server, plain HTTP/1.1, one exchange at a time; parsed by httptools.

An asyncio protocol. Knows bytes and headers; knows no pool, no TLS and no proxies.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, cast

import httptools
import httpx2

# An answer that nobody reads is taken in up to so much.
_MOST_UNREAD_BYTES = 256 * 1024
# An answer's head is refused beyond so much, and what is read at once.
_MOST_HEAD_BYTES = 100 * 1024
Pairs = list[tuple[bytes, bytes]]


class Link(asyncio.Protocol):
    """A connection; made by a loop's `create_connection`.

    Attributes:
        idle_since_s: When its last exchange ended.
        is_open: It can have another exchange.
    """

    def __init__(self) -> None:
        self.idle_since_s = 0.0
        self.is_open = False
        self.status = 0
        self.headers: Pairs = []
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._parts: deque[bytes] = deque()
        self._num_unread = self._num_head_bytes = 0
        self._has_head = self._is_done = self._is_busy = self._is_full = False
        self._is_for_head = False
        self._error: httpx2.RequestError | None = None
        self._news: asyncio.Future[None] | None = None

    # What a caller does.

    async def send(self, head: bytes, request: httpx2.Request, timeout_s: float | None) -> None:
        """Send a request; its answer may come before all of it was sent.

        Raises:
            httpx2.RequestError: the connection ended, or nobody took what was sent in time.
        """
        self.headers, self._has_head, self._is_done = [], False, False
        self._is_busy, self._num_head_bytes = True, 0
        self._is_for_head = request.method == "HEAD"
        try:
            await self._write(head + request.content, timeout_s)
            # Who answers before it has read all may never read the rest.
            self.is_open = self.is_open and not self._is_full
        except httpx2.RequestNotRead:
            await self._write(head, timeout_s)
            is_chunked = "transfer-encoding" in request.headers
            async for piece in request.stream:  # type: ignore[union-attr]
                if self._has_head:
                    self.is_open = False  # The rest is not wanted, but the server may wait for it.
                    return
                if piece:  # A chunk of nothing would be the end.
                    framed = b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece
                    await self._write(framed, timeout_s)
            if is_chunked:
                await self._write(b"0\r\n\r\n", timeout_s)

    async def receive_head(self, timeout_s: float | None) -> None:
        """Wait for status and headers.

        Raises:
            httpx2.RequestError: the connection ended, or nothing came in time.
        """
        while not self._has_head:
            await self._wait(timeout_s)

    async def receive_body(self, timeout_s: float | None) -> AsyncIterator[bytes]:
        """Yield the body as it comes.

        Raises:
            httpx2.RequestError: the connection ended, or nothing came in time.
        """
        while True:
            if self._parts:
                part = b"".join(self._parts)  # One alone is not copied.
                self._parts.clear()
                if self._num_unread > _MOST_UNREAD_BYTES:
                    self._transport.resume_reading()
                self._num_unread = 0
                yield part
            elif self._is_done:
                return
            else:
                await self._wait(timeout_s)

    def end(self) -> bool:
        """End an exchange; return whether there can be another."""
        is_whole = self._is_done and not self._parts
        self._is_busy = False
        if not (is_whole and self.is_open):
            self.close()
        return self.is_open

    def close(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        self._transport.abort()

    # What the loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of its own class.
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Read a part of an answer; what was not asked for ends the connection."""
        if not self._is_busy:
            self.close()
            return
        self._num_head_bytes += 0 if self._has_head else len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx2.RemoteProtocolError(f"no answer in HTTP/1.1: {error}"))
        if not self._has_head and self._num_head_bytes > _MOST_HEAD_BYTES:
            self._fail(httpx2.RemoteProtocolError(f"a head of over {_MOST_HEAD_BYTES:,} bytes"))
        self._tell()

    def connection_lost(self, error: Exception | None) -> None:
        """End the exchange, if there is one: a body without a length ends so."""
        self.is_open = False
        if self._has_head and not self._is_framed() and error is None:
            self._is_done = True
        if not self._is_done:
            self._fail(
                httpx2.ReadError(str(error))
                if error
                else httpx2.RemoteProtocolError("the server closed the connection")
            )
        self.resume_writing()

    def pause_writing(self) -> None:
        """Let senders wait."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Let them go on."""
        self._is_full = False
        self._tell()

    # What the parser says.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, but no trailer; one after the end is another answer's, not asked for."""
        if self._is_done:
            self.is_open = False
        elif not self._has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Let who waits for the head have it; one that only says to go on is none."""
        if self._is_done:
            self.is_open = False
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
            return
        self._has_head = True
        self.is_open = self.is_open and self._parser.should_keep_alive()
        if self._is_for_head:
            # No body comes, whatever the headers say: only the parser still waits for it.
            self._is_done, self.is_open = True, False

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body until it is asked for."""
        if self._is_done:
            return
        self._parts.append(data)
        self._num_unread += len(data)
        if self._num_unread > _MOST_UNREAD_BYTES:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note the end of the answer."""
        self._is_done = self._has_head

    async def _write(self, data: bytes, timeout_s: float | None) -> None:
        """Write, and wait until most of it is taken: not once there is an answer.

        Raises:
            httpx2.RequestError: the connection ended, or nobody took it in time.
        """
        if self._error is not None:
            raise self._error
        self._transport.write(data)
        while self._is_full and not self._has_head:
            await self._wait(timeout_s, httpx2.WriteTimeout("nobody took the request in time"))

    async def _wait(
        self, timeout_s: float | None, late: httpx2.TimeoutException | None = None
    ) -> None:
        """Wait until something has come, or can be written.

        Raises:
            httpx2.RequestError: the connection ended, or nothing came in time (`late`).
        """
        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        self._news = loop.create_future()
        late = late or httpx2.ReadTimeout("nothing came in time")
        timer = loop.call_later(timeout_s, self._time_out, late) if timeout_s is not None else None
        try:
            await self._news
        finally:
            self._news = None
            if timer is not None:
                timer.cancel()

    def _time_out(self, late: httpx2.TimeoutException) -> None:
        self._fail(late)
        self._tell()

    def _fail(self, error: httpx2.RequestError) -> None:
        self._error = self._error or error
        self.is_open = False

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _is_framed(self) -> bool:
        """Whether an answer says where it ends."""
        framing = (b"content-length", b"transfer-encoding")
        return any(name.lower() in framing for name, _ in self.headers)


def head_of(request: httpx2.Request) -> bytes:
    """Return a request's first line and headers as they are sent.

    Raises:
        httpx2.LocalProtocolError: a header holds an end of a line.
    """
    pairs: list[Any] = request.headers.raw
    lines = [b"%b: %b" % pair for pair in pairs]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
        raise httpx2.LocalProtocolError("a header's value holds the end of a line")
    target = request.url.raw_path
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (request.method.encode("ascii"), target, head)
