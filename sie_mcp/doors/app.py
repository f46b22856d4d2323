"""A door's application: short texts to encode are joined, everything else goes on as it came."""

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sie_mcp.connection import GRACE_S, Address, Connections
from sie_mcp.doors.joined import JoinedVectors
from sie_mcp.doors.passing import Passing
from sie_mcp.http_ends import CLIENT_CLOSED


class Door:
    """Stands before one worker.

    Args:
        socket: The worker's.
        timeout_s: Of a request.
        joins: Whether requests may run as one; those that are traced run apart.
    """

    def __init__(self, socket: str, *, timeout_s: float, joins: bool = True) -> None:
        worker = Address("http://worker", socket)
        self._connections = Connections(timeout_s=timeout_s + GRACE_S)
        self._probes = Connections(timeout_s=timeout_s + GRACE_S)
        self._passing = Passing(worker, self._connections, self._probes)
        self._joined = JoinedVectors(worker, self._connections) if joins else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = None if self._joined is None else await self._joined.answer(request)
        except ClientDisconnect:
            response = Response(status_code=CLIENT_CLOSED)
        if response is None:
            response = await self._passing.answer(request)
        await response(scope, receive, send)

    async def aclose(self) -> None:
        """Close connections."""
        await self._connections.aclose()
        await self._probes.aclose()
