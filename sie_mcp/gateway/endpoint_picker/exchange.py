"""One request through a proxy: read, given a worker, and counted as that worker's to its end.

Answers the parts of a request as they come; knows no sockets. In each mode of bodies that Envoy
has: none or streamed, where path and headers decide; buffered; and streamed both ways, where the
head is held back until enough of the body was read.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from sie_mcp.access.gate import error_response
from sie_mcp.connection import Address, Want
from sie_mcp.errors import BodyTooLarge, QueueFull, SieError, WorkerLost, WorkerUnavailable
from sie_mcp.gateway.endpoint_picker import messages
from sie_mcp.gateway.endpoint_picker.protocol import BodySendMode
from sie_mcp.gateway.endpoint_picker.rules import Head, Rules, read_head, want_of
from sie_mcp.gateway.wanted import MAX_READ_BYTES

# With the first choice: where a proxy may send a request again.
MAX_HOSTS = 3
_BUFFERED = (BodySendMode.BUFFERED, BodySendMode.BUFFERED_PARTIAL)
_BOTH_WAYS = BodySendMode.FULL_DUPLEX_STREAMED
_LEAVING = (WorkerUnavailable.code, WorkerLost.code)
# On every answer of a worker; without it the proxy answered, for nobody else did.
_WORKERS_MARK = "x-sie-server-version"
_NOBODY_THERE = ("502", "503")
_SHED = 429


class Picks(Protocol):
    """Pools, as far as this goes."""

    async def address(self, want: Want) -> Address:
        """Return a worker, which has one request more until `done` or `lost`."""

    def next_best(self, address: Address, want: Want, count: int) -> list[Address]:
        """Return who should get the request if that worker fails it."""

    def done(self, address: Address, want: Want) -> None:
        """Hear that the request has ended."""

    async def lost(self, address: Address, want: Want) -> None:
        """Hear that the worker did not answer."""

    def learn(self, want: Want, name: str | None) -> None:
        """Hear under which name a worker keeps the model."""


class Buffers:
    """What all requests together hold of bodies until they are given a worker.

    Args:
        each_bytes: Of one.
        all_bytes: Of all.
    """

    def __init__(self, each_bytes: int, all_bytes: int) -> None:
        self._each_bytes, self._all_bytes = each_bytes, all_bytes
        self.held_bytes = 0

    def take(self, content: bytearray, more: bytes) -> None:
        """Put a part to what is held.

        Raises:
            BodyTooLarge: one body is.
            QueueFull: all of them are.
        """
        if len(content) + len(more) > self._each_bytes:
            raise BodyTooLarge(
                f"the body is over {self._each_bytes:,} bytes (max_body_bytes); "
                "send fewer items at once"
            )
        if self.held_bytes + len(more) > self._all_bytes:
            raise QueueFull("too many bodies are being read; call again")
        content += more
        self.held_bytes += len(more)

    def give_back(self, content: bytearray) -> bytes:
        """Let go of what was held, and return it."""
        held = bytes(content)
        self.held_bytes -= len(held)
        content.clear()
        return held


class Exchange:
    """A request and its answer.

    Attributes:
        is_refused: It has its answer already; the proxy asks no more.
    """

    def __init__(self, picks: Picks, rules: Rules, buffers: Buffers) -> None:
        self._picks, self._rules, self._buffers = picks, rules, buffers
        self._head: Head | None = None
        self._among: frozenset[str] | None = None
        self._request_mode = self._response_mode = BodySendMode.NONE
        self._content = bytearray()
        self._given: tuple[Address, Want] | None = None
        self._is_decided = False
        self.is_refused = False

    async def answer(self, message: Any) -> Sequence[Any]:
        """Return what is answered to a part of it; nothing where more must be read first."""
        part = message.WhichOneof("request")
        if part.startswith("response"):
            return await self._answer_response(part, message)
        try:
            return await self._answer_request(part, message)
        except SieError as error:
            self.is_refused = True
            return [messages.refusal(error_response(error), _status_of(error))]

    async def end(self) -> None:
        """Hear that the exchange is over, however it ended."""
        self._buffers.give_back(self._content)
        if self._given is not None:
            self._picks.done(*self._given)
            self._given = None

    async def _answer_request(self, part: str, message: Any) -> Sequence[Any]:
        if part == "request_headers":
            return await self._begin(message)
        if part == "request_body":
            return await self._read(message.request_body)
        decided = [] if self._is_decided else await self._decide(is_end=False)
        return [*decided, messages.trailers_go_on(part)]

    async def _begin(self, message: Any) -> Sequence[Any]:
        self._request_mode = message.protocol_config.request_body_mode
        self._response_mode = message.protocol_config.response_body_mode
        self._among = messages.among_of(message)
        self._head = read_head(messages.headers_of(message.request_headers))
        self._rules.check(self._head)
        has_body = not message.request_headers.end_of_stream
        if has_body and self._head.is_told_by_body:
            if self._request_mode == _BOTH_WAYS:
                return []
            if self._request_mode in _BUFFERED:
                return [messages.go_on("request_headers")]
        return [await self._pick("request_headers")]

    async def _read(self, body: Any) -> Sequence[Any]:
        if self._is_decided and self._request_mode == _BOTH_WAYS:
            return list(messages.passed_on("request_body", body.body, is_end=body.end_of_stream))
        if self._is_decided:
            return [messages.go_on("request_body")]
        self._buffers.take(self._content, body.body)
        assert self._head is not None
        is_enough = len(self._content) > MAX_READ_BYTES and not self._head.needs_whole_body
        if body.end_of_stream or is_enough or self._request_mode in _BUFFERED:
            return await self._decide(is_end=body.end_of_stream)
        return []

    async def _decide(self, *, is_end: bool) -> Sequence[Any]:
        """Pick a worker by what was read, and hand that on."""
        if self._request_mode in _BUFFERED:
            return [await self._pick("request_body")]
        picked = await self._pick("request_headers")
        held = self._buffers.give_back(self._content)
        return [picked, *messages.passed_on("request_body", held, is_end=is_end)]

    async def _pick(self, part: str) -> Any:
        assert self._head is not None
        want = want_of(self._head, bytes(self._content), self._among)
        if part == "request_body":
            self._buffers.give_back(self._content)  # The proxy has it.
        address = await self._picks.address(want)
        self._given, self._is_decided = (address, want), True
        others = self._picks.next_best(address, want, MAX_HOSTS - 1)
        value, metadata = messages.destination(host_of(one) for one in (address, *others))
        marks, hidden = self._rules.marks()
        change = messages.change({**marks, messages.DESTINATION: value}, hidden)
        return messages.go_on(part, change, metadata)

    async def _answer_response(self, part: str, message: Any) -> Sequence[Any]:
        if part == "response_headers":
            await self._hear(message)
            if message.response_headers.end_of_stream:
                await self.end()
            return [messages.go_on(part)]
        if part == "response_trailers":
            await self.end()
            return [messages.trailers_go_on(part)]
        body = message.response_body
        if body.end_of_stream:
            await self.end()
        if self._response_mode == _BOTH_WAYS:
            return list(messages.passed_on(part, body.body, is_end=body.end_of_stream))
        return [messages.go_on(part)]

    async def _hear(self, message: Any) -> None:
        """Hear whether the worker answered that was picked."""
        if self._given is None:
            return
        address, want = self._given
        headers = messages.headers_of(message.response_headers)
        served = messages.served_by(message)
        if served not in (None, host_of(address)) or _is_lost(headers):
            self._given = None
            await self._picks.lost(address, want)
        else:
            self._picks.learn(want, headers.get("x-sie-model"))


def host_of(address: Address) -> str:
    """Return an address as proxies name it: `ip:port`."""
    return address.base_url.removeprefix("http://")


def _is_lost(headers: Any) -> bool:
    if headers.get("x-sie-error-code") in _LEAVING:
        return True
    return headers.get(":status") in _NOBODY_THERE and _WORKERS_MARK not in headers


def _status_of(error: SieError) -> int:
    """Return the status that the protocol has for it: too much waits is 429 there."""
    return _SHED if isinstance(error, QueueFull) else error.status
