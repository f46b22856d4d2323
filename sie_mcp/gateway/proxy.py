"""The models' routes handed on to the worker, bytes as they are; a hang-up cancels the work.

A body that came compressed goes on unpacked; an answer is compressed by the worker, or not at all.
What is large goes through in pieces, both ways.
"""

from dataclasses import replace

import anyio
import httpx2
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sie_mcp import tracing
from sie_mcp.access.gate import error_response
from sie_mcp.answer import rebuild_error
from sie_mcp.broker.messages import Call
from sie_mcp.connection import (
    ANYTHING,
    Address,
    Connections,
    Endpoint,
    Want,
    connection_error,
    one_try,
)
from sie_mcp.dialects.asked import asked_of
from sie_mcp.errors import SieError, WorkerLost, WorkerUnavailable
from sie_mcp.gateway.admission import admit
from sie_mcp.gateway.deadline import within_deadline
from sie_mcp.gateway.incoming import (
    BodyLimits,
    Content,
    PassedOn,
    read_content,
    size_of,
    until_gone,
)
from sie_mcp.gateway.outgoing import Outgoing, headers_for_worker
from sie_mcp.gateway.queued.jobs import Job, Jobs, is_asked_for, read_timeout
from sie_mcp.gateway.vectors.cache import VectorCache
from sie_mcp.gateway.vectors.door import VectorDoor
from sie_mcp.gateway.wanted import read_want
from sie_mcp.handing_on import as_sent, body_of, handed_on, path_as_sent
from sie_mcp.retry import Patience, Suspects
from sie_mcp.tools.context import caller_name

# What nginx calls a request whose client went away; nobody reads it.
CLIENT_CLOSED = 499
# How long a request waits for a worker that is being restarted.
RESTART_WAIT_S = 30.0
# An answer of so much needs no streaming: vectors of a batch of 64 texts go on in one piece, which
# takes a fifth less of the processor (evals/LOG.md 20).
SMALL_BYTES = 256 * 1024
# Where an answer keeps it, as it came.
_WHOLE = "sie.whole"
_LEAVING = (WorkerUnavailable.code, WorkerLost.code)


class Proxy:
    """Hands requests on to the endpoint's worker.

    Args:
        limits: Of a request's body.
        vectors: What is known is answered from there.
        max_items: Of a request that is.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float,
        limits: BodyLimits,
        allows_local_models: bool = False,
        worker_key: str | None = None,
        jobs: Jobs | None = None,
        vectors: VectorCache | None = None,
        max_items: int = 0,
    ) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._jobs = jobs
        self._limits = limits
        self._allows_local_models = allows_local_models
        self._connections = Connections(timeout_s=timeout_s, key=worker_key)
        self._suspects = Suspects()
        self._door: VectorDoor | None = None
        if vectors is not None:
            self._door = VectorDoor(vectors, self._ask, max_items=max_items)

    async def handle(self, request: Request) -> Response:
        """Answer with the worker's answer, or a typed error when none can be had."""
        try:
            content = await read_content(request, self._limits, is_needed=self._reads(request))
            await admit(request, content)
            if self._jobs is not None and is_asked_for(request) and isinstance(content, bytes):
                want = read_want(request, content)
                if want.priority:
                    return await self._jobs.submit(self._job(request, content, want))
            with tracing.span(f"{request.method} /v1", "server", bytes=size_of(content)):
                answer = await until_gone(
                    request, content, lambda: self._answer_in_time(request, content)
                )
        except SieError as error:
            return error_response(error, request.scope["path"])
        return Response(status_code=CLIENT_CLOSED) if answer is None else answer

    async def aclose(self) -> None:
        """Close connections."""
        if self._door is not None:
            await self._door.aclose()
        await self._connections.aclose()

    def _reads(self, request: Request) -> bool:
        """Whether what a body says matters here."""
        if self._jobs is not None and is_asked_for(request):
            return True
        if self._door is not None and self._door.may_answer(request):
            return True
        return self._endpoint.chooses and asked_of(request.scope["path"], "POST").is_in_body

    async def _answer_in_time(self, request: Request, content: Content) -> Response:
        if isinstance(content, PassedOn):
            # Its time begins when all of it is there, which the worker sees.
            return await self._answer(request, content)
        return await within_deadline(
            request, self._timeout_s, lambda: self._answer(request, content)
        )

    async def _answer(self, request: Request, content: Content) -> Response:
        headers = self._headers(request)
        own = content if isinstance(content, bytes) else b""
        if isinstance(content, PassedOn) and content.num_bytes is not None:
            headers.append(("content-length", str(content.num_bytes)))
        elif self._door is not None and self._door.may_answer(request):
            known = await self._door.answer(request, own, headers)
            if known is not None:
                return known
        want = read_want(request, own) if self._endpoint.chooses else ANYTHING
        path = path_as_sent(request)
        answer = await self._forward(Outgoing(request.method, path, headers, content, want))
        described = dict(handed_on(answer.headers.items()))
        if (whole := answer.extensions.get(_WHOLE)) is not None:
            return Response(whole, answer.status_code, described)
        if (length := answer.headers.get("content-length")) is not None:
            described["content-length"] = length
        return StreamingResponse(body_of(answer), answer.status_code, described)

    async def _ask(self, outgoing: Outgoing) -> httpx2.Response:
        """Send, and return the answer, read."""
        return await _read(await self._forward(outgoing))

    def _job(self, request: Request, content: bytes, want: Want) -> Job:
        """Return a request as a job: a job stands back unless it says otherwise."""
        headers = dict([("x-sie-priority", "bulk"), *self._headers(request)])
        # How long a job may take is said by the broker.
        timeout_s = read_timeout(headers.pop("x-sie-timeout", None))
        call = Call(request.method, path_as_sent(request), tuple(headers.items()), content)
        key = request.headers.get("Idempotency-Key")
        return Job(call, want, caller_name(request), key, timeout_s)

    async def _forward(self, outgoing: Outgoing) -> httpx2.Response:
        """Send, and again when the worker was lost: all that it does can be repeated.

        Raises:
            WorkerUnavailable: no worker answers, or none is left that has the whole body.
        """
        patience = Patience(RESTART_WAIT_S)
        want = outgoing.want
        while True:
            address = await self._endpoint.address(want)
            try:
                async with one_try(self._endpoint, address, want):
                    return await self._try(address, outgoing, patience, want)
            except WorkerUnavailable as error:
                if isinstance(outgoing.content, PassedOn) and outgoing.content.has_begun:
                    raise outgoing.content.after(error) from error
                pause_s = patience.pause_s(error)
                if pause_s is None:
                    patience.raise_last(error)
            want = replace(want, tried=want.tried | {address.base_url})
            await anyio.sleep(pause_s)

    async def _try(
        self, address: Address, outgoing: Outgoing, patience: Patience, want: Want
    ) -> httpx2.Response:
        """Return the answer; one that is small has been read.

        Raises:
            WorkerUnavailable: there is no worker now, or it is leaving.
        """
        try:
            async with self._suspects.turn(patience):
                answer = await self._send(address, outgoing)
                if _is_small(answer):
                    answer.extensions[_WHOLE] = b"".join(
                        [part async for part in answer.aiter_raw()]
                    )
        except httpx2.RequestError as error:
            raise connection_error(error, address) from error
        if answer.headers.get("X-SIE-Error-Code") not in _LEAVING:
            self._endpoint.learn(want, answer.headers.get("X-SIE-Model"))
            return answer
        patience.had_worker = True
        raise rebuild_error(await _read(answer))

    async def _send(self, address: Address, outgoing: Outgoing) -> httpx2.Response:
        return await self._connections.send(
            address, outgoing.method, outgoing.path, as_sent(outgoing.headers), outgoing.content
        )

    def _headers(self, request: Request) -> list[tuple[str, str]]:
        return headers_for_worker(request, allows_local_models=self._allows_local_models)


async def _read(answer: httpx2.Response) -> httpx2.Response:
    """Return the same answer, read and unpacked."""
    if (whole := answer.extensions.get(_WHOLE)) is not None:
        return httpx2.Response(answer.status_code, headers=answer.headers, content=whole)
    await answer.aread()
    return answer


def _is_small(answer: httpx2.Response) -> bool:
    """Whether an answer is read and sent in one go."""
    length = answer.headers.get("content-length", "")
    return length.isdigit() and int(length) <= SMALL_BYTES
