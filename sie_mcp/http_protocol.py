"""How servers read HTTP: uvicorn's protocol over httptools, with what its parser leaves to others.

The parser keeps whitespace behind a field's value, which is no part of it (RFC 9110, 5.5), has no
limit on what stands before a body, and takes what follows a request that offers another protocol
for that protocol's, though we speak none. Nobody waits without end for a request that has begun, or
for the first of a connection. Knows no route.
"""

import asyncio
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Of a request line and its fields, trailers too; what uvicorn's other parser allows.
MAX_HEAD_BYTES: Final = 64 * 1024
TOO_LARGE: Final = f"The request line and its fields have more than {MAX_HEAD_BYTES} bytes."
INVALID: Final = "Invalid HTTP request received."
# Until all of a head is there. One that has not begun has the time of an idle connection.
MAX_HEAD_S = 60.0
LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class HttpProtocol(HttpToolsProtocol):
    """One connection: plain values, heads of at most 64 KiB, and no protocol but HTTP."""

    _field_bytes = 0
    # Received in reads in which the parser told of nothing: part of a field that has not ended.
    _untold_bytes = 0
    _has_told = False
    # The request offers another protocol, as Java's client does at first; it is read once more.
    _has_offer = False
    _is_in_head = False
    _timer: asyncio.TimerHandle | None = None
    _waits_s: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_for(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; answer 400 to what is no request, or has no end."""
        self._has_told = False
        self._unset_keepalive_if_required()
        left: memoryview | None = memoryview(data)
        while left is not None:
            left = self._read(left)
        self._wait()
        if self._has_told or self.transport.is_closing():
            return
        self._untold_bytes += len(data)
        if self._field_bytes + self._untold_bytes > MAX_HEAD_BYTES:
            self.send_400_response(TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request and close; name the limit where it is what ends the parser."""
        super().send_400_response(TOO_LARGE if self._field_bytes > MAX_HEAD_BYTES else msg)

    def on_message_begin(self) -> None:
        """Count anew."""
        self._field_bytes = 0
        self._is_in_head = True
        self._told()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the target, which comes in pieces."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field, its value without whitespace around it."""
        self._count(len(name) + len(value) + 4)  # ": " and the end of the line
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Start on the request, unless it is to be read once more."""
        self._is_in_head = False
        self._has_offer = self.parser.should_upgrade()
        if not self._has_offer:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand on a piece of the body, which has limits of its own."""
        self._told()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Hand on the end; what offers another protocol has not begun."""
        if not self._has_offer:
            super().on_message_complete()

    def _read(self, data: memoryview) -> memoryview | None:
        """Let the parser read; return what is left behind a head with an offer, else None."""
        try:
            return self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning(INVALID)
            self.send_400_response(INVALID)
            return None

    def _parse(self, data: memoryview) -> memoryview | None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError(INVALID) from offer
            self._decline()
            return data[offer.args[0] :]
        return None

    def _decline(self) -> None:
        """Read the head once more, by a parser to which the other protocol is not offered."""
        version = self.parser.get_http_version().encode()
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn sets its own.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"".join([*head, b"\r\n"]))

    def _owes_nothing(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        """Wait for the rest of a head, or for its beginning where nothing is owed."""
        if self._is_in_head:
            self._wait_for(MAX_HEAD_S)
        else:
            self._wait_for(self.timeout_keep_alive if self._owes_nothing() else None)

    def _wait_for(self, wait_s: float | None) -> None:
        """Wait so long in all, however much comes meanwhile."""
        if wait_s == self._waits_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._waits_s = wait_s
        self._timer = None if wait_s is None else self.loop.call_later(wait_s, self._give_up)

    def _give_up(self) -> None:
        self._timer = self._waits_s = None
        if self.transport.is_closing():
            return
        if not self._owes_nothing():
            self._wait()
            return
        if self._is_in_head:
            self.transport.write(LATE)
        self.transport.close()

    def _count(self, num_bytes: int) -> None:
        self._told()
        self._field_bytes += num_bytes
        if self._field_bytes > MAX_HEAD_BYTES:
            raise httptools.HttpParserError(TOO_LARGE)

    def _told(self) -> None:
        self._has_told = True
        self._untold_bytes = 0
