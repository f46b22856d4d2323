"""What servers of models' routes have in common: answers, errors too, and callers that hang up.

Knows Starlette and the dialects; knows no route.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sie_mcp.codec import encode_body
from sie_mcp.dialects.bodies import Reply, answer_type, write, write_pieces
from sie_mcp.dialects.table import error_body, status_of
from sie_mcp.dialects.versions import status_for
from sie_mcp.errors import SieError

ResultT = TypeVar("ResultT")
# What nginx calls a request whose client went away; nobody reads it.
CLIENT_CLOSED = 499
# Paths by which who runs a worker looks after it: open, not counted, never refused.
PROBES = ("/health", "/healthz", "/readyz", "/metrics")


class ClientGone(Exception):
    """The caller hung up; the work was cancelled."""


async def unless_gone(
    request: Request, work: Coroutine[Any, Any, ResultT] | asyncio.Future[ResultT]
) -> ResultT:
    """Await the work, but cancel it when the caller hangs up.

    Args:
        request: Whose body was read before.
        work: What to do.

    Raises:
        ClientGone: the caller hung up.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return await task
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def error_response(request: Request, error: SieError) -> Response:
    """Turn an error into its envelope, in the dialect of the path, with status and headers."""
    media_type = answer_type(request.headers)
    path = request.scope["path"]
    content = error_body(path, error)
    headers = {"X-SIE-Error-Code": error.code}
    if error.retry_after_s is not None:
        headers["Retry-After"] = f"{error.retry_after_s:.1f}".removesuffix(".0")
    return Response(
        encode_body(content, media_type),
        status_code=status_for(request.headers, status_of(path, error)),
        media_type=media_type,
        headers=headers,
    )


async def written(reply: Reply, headers: Mapping[str, str]) -> Response:
    """Serialise, on a thread where it takes long; a large answer while it is sent.

    Args:
        reply: The answer.
        headers: The caller's, which say in what form.
    """
    if reply.is_large:
        pieces, described = write_pieces(reply.body, headers)
        return StreamingResponse(pieces, reply.status, {**reply.headers, **described})
    if reply.is_small:
        content, described = write(reply.body, headers)
    else:
        content, described = await asyncio.to_thread(write, reply.body, headers)
    return Response(content, reply.status, {**reply.headers, **described})


async def _hung_up(request: Request) -> None:
    """Return when the caller has closed the connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
