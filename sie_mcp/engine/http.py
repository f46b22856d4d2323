"""Bodies in and out of the worker's routes: limits, forms, errors, and the caller hanging up.

Knows HTTP and the wire contract; knows no route.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import pydantic
from starlette.requests import Request
from starlette.responses import Response

import sie_mcp
from sie_mcp import metrics, request_ids, tracing, wire
from sie_mcp.codec import decode_body, encode_body, media_type_of, preferred_media_type
from sie_mcp.errors import BodyTooLarge, InvalidInput, SieError

logger = logging.getLogger(__name__)

BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)
ResultT = TypeVar("ResultT")
Handler = Callable[[Request], Awaitable["pydantic.BaseModel | Accepted"]]
# What nginx calls a request whose client went away; nobody reads it.
CLIENT_CLOSED = 499
MAX_EXPLAINED = 3


class ClientGone(Exception):
    """The caller hung up; the work was cancelled."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An answer whose work has begun and goes on: status 202."""

    body: pydantic.BaseModel


async def read_body(request: Request, body_type: type[BodyT], max_bytes: int) -> BodyT:
    """Read and validate a JSON or MessagePack body.

    Raises:
        InvalidInput: too large, not parsable, or not what the route takes.
    """
    media_type = media_type_of(request.headers.get("content-type"))
    data = decode_body(await _read_bytes(request, max_bytes), media_type)
    try:
        return body_type.model_validate(data)
    except pydantic.ValidationError as error:
        raise InvalidInput(explain(error)) from error


def declared_bytes(request: Request) -> int:
    """Return the size of the body as its header says, 0 where it does not."""
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isdigit() else 0


def explain(error: pydantic.ValidationError) -> str:
    """Say what is wrong with a body in one line, without echoing it."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    parts = [
        f"{'.'.join(str(one) for one in detail['loc']) or 'body'}: {detail['msg']}"
        for detail in details[:MAX_EXPLAINED]
    ]
    more = len(details) - len(parts)
    return "; ".join(parts) + (f"; and {more} more" if more else "")


async def unless_gone(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await the work, but cancel it when the caller hangs up.

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


def route(name: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler: its body becomes the answer, its errors the error envelope."""

    async def endpoint(request: Request) -> Response:
        started_s = time.monotonic()
        metrics.REQUESTS_IN_FLIGHT.inc()
        token = request_ids.take(request.headers.get(request_ids.HEADER))
        try:
            with tracing.span(name, "server", parent=request.headers):
                response = await _answer(request, handler)
                tracing.annotate(status=response.status_code)
            response.headers["X-SIE-Request-Id"] = request_ids.current()
        finally:
            request_ids.leave(token)
            metrics.REQUESTS_IN_FLIGHT.dec()
        metrics.REQUEST_SECONDS.labels(name).observe(time.monotonic() - started_s)
        metrics.REQUESTS.labels(name, str(response.status_code)).inc()
        response.headers["X-SIE-Server-Version"] = sie_mcp.__version__
        return response

    return endpoint


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
    media_type = _answer_type(request)
    body, status = (result.body, 202) if isinstance(result, Accepted) else (result, 200)
    response = Response(encode_body(body, media_type), status, media_type=media_type)
    if isinstance(body, wire.Response):
        # What a gateway routes by, where the caller used an alias.
        response.headers["X-SIE-Model"] = quote(body.model, safe="/")
    return response


def error_response(request: Request, error: SieError) -> Response:
    """Turn an error into its envelope, status and headers."""
    media_type = _answer_type(request)
    content = {"error": {"code": error.code, "message": str(error)}}
    headers = {"X-SIE-Error-Code": error.code}
    if error.retry_after_s is not None:
        headers["Retry-After"] = f"{error.retry_after_s:.1f}".removesuffix(".0")
    return Response(
        encode_body(content, media_type),
        status_code=error.status,
        media_type=media_type,
        headers=headers,
    )


def _answer_type(request: Request) -> str:
    try:
        sent = media_type_of(request.headers.get("content-type"))
    except InvalidInput:
        sent = "application/json"
    return preferred_media_type(request.headers.get("accept"), sent)


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


async def _hung_up(request: Request) -> None:
    """Return when the caller has closed the connection; the body was read before."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
