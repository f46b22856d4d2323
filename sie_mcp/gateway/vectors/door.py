"""Requests for vectors at the gateway's door: answered with the cache where they can be.

Where a worker refuses a part, the whole request goes the ordinary way: its words are the caller's.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from urllib.parse import quote, urlencode

import anyio.to_thread
import httpx2
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sie_mcp import wire
from sie_mcp.answer import read_answer, rebuild_error
from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.dialects.bodies import reply_to, write, write_pieces
from sie_mcp.dialects.versions import wire_version
from sie_mcp.errors import InvalidInput
from sie_mcp.gateway.outgoing import Outgoing
from sie_mcp.gateway.vectors.asked import AskedVectors, may_ask, read_asked
from sie_mcp.gateway.vectors.cache import Found, VectorCache
from sie_mcp.gateway.wanted import want_of

CACHE_HEADER = "X-SIE-Cache"
# What the caller's own words say of its body and its answer is not so of ours.
_FORMS = {"accept", "accept-encoding", "content-type"}
Send = Callable[[Outgoing], Awaitable[httpx2.Response]]


class Refused(Exception):
    """A worker found something wrong with a request of ours."""


class VectorDoor:
    """Answers what it can; everything else is for the ordinary way.

    Args:
        cache: Looks vectors up.
        send: Sends a request to a worker, and returns its answer, read.
        max_items: A request of more is the worker's to refuse.
    """

    def __init__(self, cache: VectorCache, send: Send, *, max_items: int) -> None:
        self._cache = cache
        self._send = send
        self._max_items = max_items

    def may_answer(self, request: Request) -> bool:
        """Whether a request can be for vectors, and its caller takes kept ones."""
        said = request.headers.get("cache-control", "").lower()
        return "no-store" not in said and may_ask(request.scope["path"], request.method)

    async def answer(
        self, request: Request, content: bytes, headers: list[tuple[str, str]]
    ) -> Response | None:
        """Return the answer, None where the request goes the ordinary way.

        Args:
            request: The caller's.
            content: Its body, unpacked.
            headers: What a worker is told.

        Raises:
            SieError: the worker's, where it is not of the request.
        """
        path, said = request.scope["path"], request.headers.get("cache-control", "").lower()
        try:
            asked = await anyio.to_thread.run_sync(read_asked, path, request.headers, content)
        except InvalidInput:
            return None
        if asked is None or sum(len(one.items) for one in asked.requests) > self._max_items:
            return None
        own = [pair for pair in headers if pair[0].lower() not in _FORMS]
        ask = partial(self._ask, request, own)
        ask_revision = partial(self._ask_revision, request, own)
        reads = "no-cache" not in said
        try:
            found = [
                await self._cache.answer(asked.model, one, ask, ask_revision, reads=reads)
                for one in asked.requests
            ]
        except Refused:
            return None
        return await anyio.to_thread.run_sync(_written, request, asked, found)

    async def aclose(self) -> None:
        """Close the file."""
        await self._cache.aclose()

    async def _ask(
        self, request: Request, headers: list[tuple[str, str]], model: str, body: wire.EncodeRequest
    ) -> wire.EncodeResponse:
        content = await anyio.to_thread.run_sync(encode_body, body, MSGPACK)
        answer = await self._exchange(
            Outgoing(
                "POST",
                f"/v1/encode/{_quoted(model)}",
                [*headers, ("content-type", MSGPACK), ("accept", MSGPACK)],
                content,
                want_of(request.headers, model, body.params.options.lora),
            )
        )
        return await anyio.to_thread.run_sync(read_answer, answer, wire.EncodeResponse)

    async def _ask_revision(
        self, request: Request, headers: list[tuple[str, str]], model: str, lora: str | None
    ) -> wire.Revision:
        query = f"?{urlencode({'lora': lora})}" if lora else ""
        path = f"/v1/revision/{_quoted(model)}{query}"
        want = replace(want_of(request.headers, model, lora), priority="")
        answer = await self._exchange(Outgoing("GET", path, headers, b"", want))
        return read_answer(answer, wire.Revision)

    async def _exchange(self, outgoing: Outgoing) -> httpx2.Response:
        answer = await self._send(outgoing)
        if answer.is_success:
            return answer
        if answer.status_code < 500 and answer.status_code != 429:
            raise Refused
        raise rebuild_error(answer)


def _written(request: Request, asked: AskedVectors, found: list[Found]) -> Response:
    responses = [one.response for one in found]
    reply = reply_to(asked.answer(responses), responses)
    num_hits = sum(one.num_hits for one in found)
    num_items = sum(len(one.items) for one in responses)
    headers = {
        **reply.headers,
        **asked.headers,
        CACHE_HEADER: f"hits={num_hits}, misses={num_items - num_hits}",
        "X-SIE-Server-Version": wire_version(request.headers),
    }
    if reply.is_large:
        pieces, described = write_pieces(reply.body, request.headers)
        return StreamingResponse(pieces, headers=headers | described)
    content, described = write(reply.body, request.headers)
    return Response(content, headers=headers | described)


def _quoted(model: str) -> str:
    """Return a name as a part of a path; dots that would walk up are escaped too."""
    segments = quote(model, safe="/").split("/")
    return "/".join(one.replace(".", "%2E") if one in (".", "..") else one for one in segments)
