"""How servers read HTTP: uvicorn's protocol over httptools, with what its parser leaves to others.

The parser keeps whitespace behind a field's value, which is no part of it (RFC 9110, 5.5), and has
no limit on what stands before a body. Knows no route.
"""

from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Of a request line and its fields, trailers too; what uvicorn's other parser allows.
MAX_HEAD_BYTES: Final = 64 * 1024
TOO_LARGE: Final = f"The request line and its fields have more than {MAX_HEAD_BYTES} bytes."


class HttpProtocol(HttpToolsProtocol):
    """One connection: values without whitespace around them, and heads of at most 64 KiB."""

    _field_bytes = 0
    # Received in reads in which the parser told of nothing: part of a field that has not ended.
    _untold_bytes = 0
    _has_told = False

    def data_received(self, data: bytes) -> None:
        """Read on; answer 400 where a field has no end."""
        self._has_told = False
        super().data_received(data)
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

    def on_body(self, body: bytes) -> None:
        """Hand on a piece of the body, which has limits of its own."""
        self._told()
        super().on_body(body)

    def _count(self, num_bytes: int) -> None:
        self._told()
        self._field_bytes += num_bytes
        if self._field_bytes > MAX_HEAD_BYTES:
            raise httptools.HttpParserError(TOO_LARGE)

    def _told(self) -> None:
        self._has_told = True
        self._untold_bytes = 0
