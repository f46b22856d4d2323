"""Bodies in and out of the worker's routes: limits, forms and figures.

Knows HTTP and the wire contract; knows no route.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import pydantic
from starlette.requests import Request
from starlette.responses import Response

from sie_mcp import metrics, request_ids, tracing
from sie_mcp.codec import media_type_of
from sie_mcp.compression import unpack
from sie_mcp.dialects.bodies import Reply, parse
from sie_mcp.dialects.versions import wire_version
from sie_mcp.errors import BodyTooLarge, SieError
from sie_mcp.http_ends import CLIENT_CLOSED, ClientGone, error_response, written
from sie_mcp.shares import Counted

logger = logging.getLogger(__name__)

BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)
ResultT = TypeVar("ResultT")
Handler = Callable[[Request], Awaitable["pydantic.BaseModel | Reply"]]
Counts = Callable[[Mapping[str, str]], Counted]


async def read_body(request: Request, body_type: type[BodyT], max_bytes: int) -> BodyT:
    """Read and validate a JSON or MessagePack body.

    Raises:
        InvalidInput: too large, not parsable, or not what the route takes.
    """
    media_type = media_type_of(request.headers.get("content-type"))
    data = await _read_bytes(request, max_bytes)
    packing = request.headers.get("content-encoding")
    if packing is not None:
        data = await asyncio.to_thread(unpack, data, packing, max_bytes)
    return parse(data, media_type, body_type)


def declared_bytes(request: Request) -> int:
    """Return the size of the body as its header says, 0 where it does not."""
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isdigit() else 0


async def together(works: Sequence[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """Await all at once, so that they share batches; the first error ends the others."""
    tasks = [asyncio.ensure_future(one) for one in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def route(
    name: str, handler: Handler, counts: Counts | None = None
) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler: its body becomes the answer, its errors the error envelope.

    Args:
        name: Of its figures.
        handler: Answers.
        counts: Says, of its headers, what a request is counted as that stands for several.
    """

    async def endpoint(request: Request) -> Response:
        started_s = time.monotonic()
        counted = Counted(name) if counts is None else counts(request.headers)
        metrics.REQUESTS_IN_FLIGHT.inc(counted.share.number)
        token = request_ids.take(request.headers.get(request_ids.HEADER))
        try:
            with tracing.span(name, "server", parent=request.headers):
                response = await _answer(request, handler)
                tracing.annotate(status=response.status_code)
            response.headers["X-SIE-Request-Id"] = request_ids.current()
        finally:
            request_ids.leave(token)
            metrics.REQUESTS_IN_FLIGHT.dec(counted.share.number)
        _count(counted, response, time.monotonic() - started_s)
        response.headers["X-SIE-Server-Version"] = wire_version(request.headers)
        return response

    return endpoint


def _count(counted: Counted, response: Response, taken_s: float) -> None:
    number = counted.num_answered(response.headers.get("X-SIE-Error-Code"))
    if not number:
        return
    seconds = metrics.REQUEST_SECONDS.labels(counted.name)
    for _ in range(number):
        seconds.observe(taken_s)
    metrics.REQUESTS.labels(counted.name, str(response.status_code)).inc(number)


async def _answer(request: Request, handler: Handler) -> Response:
    try:
        result = await handler(request)
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED)
    except SieError as error:
        return error_response(request, error)
    except Exception:
        # The outermost door: the caller gets a typed error, the log the reason.
        logger.exception("request failed path=%s", request.url.path)
        return error_response(request, SieError("internal error; see the worker's log"))
    reply = result if isinstance(result, Reply) else Reply(result)
    return await written(reply, request.headers)


async def _read_bytes(request: Request, max_bytes: int) -> bytes:
    """Read the body, refusing it as soon as it is known to be too large."""
    refusal = f"the body is over {max_bytes:,} bytes (max_body_bytes); send fewer items at once"
    if declared_bytes(request) > max_bytes:
        raise BodyTooLarge(refusal)
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > max_bytes:
            raise BodyTooLarge(refusal)
    return bytes(chunks)
