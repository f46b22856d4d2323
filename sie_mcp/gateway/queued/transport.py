"""A way to workers for the HTTP client: not by a connection, but by the broker."""

from collections.abc import AsyncIterator

import httpx2

from sie_mcp.broker.messages import Call
from sie_mcp.gateway.queued.sender import Sender

DEFAULT_TIMEOUT_S = 600.0


class QueueTransport(httpx2.AsyncBaseTransport):
    """Requests for one model of one pool.

    Args:
        sender: Shared by all.
        pool: Whose workers answer.
        token: Of the model.
    """

    def __init__(self, sender: Sender, pool: str, token: str) -> None:
        self._sender = sender
        self._pool = pool
        self._token = token

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, and return the answer.

        Raises:
            SieError: as the sender says.
        """
        answer = await self._sender.call(
            self._pool, self._token, call_of(request, await request.aread()), timeout_of(request)
        )
        return httpx2.Response(
            answer.status, headers=list(answer.headers), stream=_Bytes(answer.body), request=request
        )


class _Bytes(httpx2.AsyncByteStream):
    """A body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


def call_of(request: httpx2.Request, body: bytes) -> Call:
    """Return a request as a message carries it."""
    headers = tuple(
        (name, value) for name, value in request.headers.multi_items() if name not in _OF_HTTP
    )
    return Call(request.method, request.url.raw_path.decode("ascii"), headers, body)


def timeout_of(request: httpx2.Request) -> float:
    """Return how long the caller waits."""
    said = request.headers.get("X-SIE-Timeout")
    try:
        return float(said) if said else _read_timeout(request)
    except ValueError:
        return _read_timeout(request)  # The worker says what is wrong with it.


# What belongs to a connection; the worker's side makes its own.
_OF_HTTP = {"host", "connection", "content-length", "accept-encoding", "transfer-encoding"}


def _read_timeout(request: httpx2.Request) -> float:
    found = request.extensions.get("timeout", {}).get("read")
    return float(found) if found else DEFAULT_TIMEOUT_S
