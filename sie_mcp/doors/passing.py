"""Requests that a door hands on as they are, and the worker's answers as they come."""

import sys

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from sie_mcp.connection import Address, Connections
from sie_mcp.doors.sending import sent_to
from sie_mcp.errors import SieError
from sie_mcp.gateway.incoming import BodyLimits, Content, PassedOn, declared_bytes, until_gone
from sie_mcp.handing_on import as_sent, body_of, handed_on, path_as_sent
from sie_mcp.http_ends import CLIENT_CLOSED, PROBES, error_response
from sie_mcp.shares import SHARE_HEADER

# What is smaller is read whole, which takes less time than to stream it.
SMALL_BYTES = 256 * 1024
# What is too large the worker says, and counts.
_LIMITS = BodyLimits(sys.maxsize, SMALL_BYTES)
# Nobody but a door says it.
_OURS = SHARE_HEADER.lower()


class Passing:
    """Hands requests on to the worker; a hang-up cancels them.

    Args:
        worker: Where it listens.
        connections: To it.
        probes: Connections for those who look after it, which no caller can take.
    """

    def __init__(self, worker: Address, connections: Connections, probes: Connections) -> None:
        self._worker = worker
        self._connections = connections
        self._probes = probes

    async def answer(self, request: Request) -> Response:
        """Return the worker's answer, or why there is none."""
        try:
            content = await _read(request)
            answer = await until_gone(request, content, lambda: self._answer(request, content))
        except SieError as error:
            return error_response(request, error)
        except ClientDisconnect:
            answer = None
        return Response(status_code=CLIENT_CLOSED) if answer is None else answer

    async def _answer(self, request: Request, content: Content) -> Response:
        headers = [one for one in handed_on(request.headers.items()) if one[0] != _OURS]
        # What it answers with may name itself.
        headers += [("host", value) for value in request.headers.getlist("host")]
        if isinstance(content, PassedOn) and content.num_bytes is not None:
            headers.append(("content-length", str(content.num_bytes)))
        is_probe = request.scope["path"] in PROBES
        connections = self._probes if is_probe else self._connections
        async with sent_to(self._worker):
            answer = await connections.send(
                self._worker, request.method, path_as_sent(request), as_sent(headers), content
            )
            described = dict(handed_on(answer.headers.items()))
            length = answer.headers.get("content-length", "")
            if length:
                described["content-length"] = length
            if length.isdigit() and int(length) <= SMALL_BYTES:
                whole = b"".join([part async for part in answer.aiter_raw()])
                return Response(whole, answer.status_code, described)
        return StreamingResponse(body_of(answer), answer.status_code, described)


async def _read(request: Request) -> Content:
    """Read a small body; a large one, or one that does not say, is handed on as it comes."""
    num_bytes = declared_bytes(request)
    if "transfer-encoding" in request.headers or (num_bytes or 0) > SMALL_BYTES:
        return PassedOn(b"", request.stream(), _LIMITS, num_bytes)
    return await request.body()
