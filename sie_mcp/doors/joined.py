"""Requests for vectors that a door answers itself: read here, joined, run as one by the worker."""

from dataclasses import dataclass, replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from sie_mcp import request_ids, wire
from sie_mcp.answer import read_answer
from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.connection import Address, Connections
from sie_mcp.dialects.bodies import reply_to
from sie_mcp.dialects.versions import wire_version
from sie_mcp.doors.sending import sent_to
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.gateway.vectors.asked import AskedVectors, may_ask, read_asked
from sie_mcp.handing_on import as_sent
from sie_mcp.http_ends import CLIENT_CLOSED, ClientGone, error_response, unless_gone, written
from sie_mcp.joining import Joiner, Share, asked_alike, may_join
from sie_mcp.shares import SHARE_HEADER, share_in_header

# A body of more is no short text.
MAX_BYTES = 16 * 1024
# Of one kind under way at once: one that runs, and the next.
MAX_RUNNING = 2
# What a worker reads of who asks.
_CALLERS = (
    "x-sie-priority", "x-sie-client", "x-sie-timeout", "x-sie-load-wait", "x-sie-local-models",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alike:
    """What requests have in common that may run as one.

    Attributes:
        name: Of the route's figures.
        model: As the caller names it.
        params: Of the request.
        caller: Headers that say who asks.
    """

    name: str
    model: str
    params: str
    caller: tuple[tuple[str, str], ...]


class JoinedVectors:
    """Answers requests for a few vectors.

    Args:
        worker: Where it listens.
        connections: To it.
    """

    def __init__(self, worker: Address, connections: Connections) -> None:
        self._worker = worker
        self._connections = connections
        self._joiner = Joiner(self._run, max_running=MAX_RUNNING)

    async def answer(self, request: Request) -> Response | None:
        """Return the answer; None where the request goes the ordinary way, its body read or not."""
        if not _may_be_small(request):
            return None
        asked = _read(request, await request.body())
        if asked is None:
            return None
        token = request_ids.take(request.headers.get(request_ids.HEADER))
        try:
            response = await self._answer(request, asked)
            response.headers["X-SIE-Request-Id"] = request_ids.current()
        finally:
            request_ids.leave(token)
        response.headers["X-SIE-Server-Version"] = wire_version(request.headers)
        return response

    async def _answer(self, request: Request, asked: AskedVectors) -> Response:
        body = asked.requests[0]
        caller = tuple((one, request.headers[one]) for one in _CALLERS if one in request.headers)
        alike = Alike(asked.name, asked.model, asked_alike(body), caller)
        try:
            found = await unless_gone(request, self._joiner.ask(alike, body))
            reply = reply_to(asked.answer([found]), [found])
        except ClientGone:
            return Response(status_code=CLIENT_CLOSED)
        except SieError as error:
            return error_response(request, error)
        headers = {**reply.headers, **asked.headers}
        return await written(replace(reply, headers=headers), request.headers)

    async def _run(
        self, alike: Alike, request: wire.EncodeRequest, share: Share
    ) -> wire.EncodeResponse:
        """Have the worker run requests as one."""
        headers = [
            *as_sent(alike.caller),
            ("content-type", MSGPACK),
            ("accept", MSGPACK),
            (SHARE_HEADER, share_in_header(alike.name, share)),
            (request_ids.HEADER, request_ids.current()),
        ]
        content = encode_body(request, MSGPACK)
        headers.append(("content-length", str(len(content))))
        path = f"/joined/{quote(alike.model, safe='')}"
        async with sent_to(self._worker):
            answer = await self._connections.send(self._worker, "POST", path, headers, content)
            await answer.aread()
        return read_answer(answer, wire.EncodeResponse)


def _may_be_small(request: Request) -> bool:
    """Whether a request can be for a few vectors, and says how long its body is."""
    length = request.headers.get("content-length", "")
    return (
        may_ask(request.scope["path"], request.method)
        and length.isdigit()
        and int(length) <= MAX_BYTES
        and "content-encoding" not in request.headers
    )


def _read(request: Request, content: bytes) -> AskedVectors | None:
    """Read what is asked; None where it is not for a few vectors, or wrong, which a worker says."""
    try:
        asked = read_asked(request.scope["path"], request.headers, content)
    except InvalidInput:
        return None
    # A route's path ends with its line.
    if asked is None or len(asked.requests) != 1 or "\n" in asked.model:
        return None
    return asked if may_join(asked.requests[0]) else None
