"""`/v1/*` handed on to the worker, bytes as they are, both ways; a hang-up cancels the work."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sie_mcp.client import Address, Endpoint
from sie_mcp.codec import JSON, encode_body
from sie_mcp.errors import BodyTooLarge, SieError, WorkerUnavailable

# Headers of one connection, never handed on (RFC 9110, 7.6.1), and those that we set ourselves.
_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "date", "server",
}  # fmt: skip


class Proxy:
    """Hands requests on to the endpoint's worker."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float, max_body_bytes: int) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._max_body_bytes = max_body_bytes
        self._sessions: dict[Address, httpx2.AsyncClient] = {}

    async def handle(self, request: Request) -> Response:
        """Answer with the worker's answer, or a typed 503 when none can be reached."""
        try:
            return await self._forward(request)
        except SieError as error:
            return error_response(error)

    async def aclose(self) -> None:
        """Close connections."""
        for session in self._sessions.values():
            await session.aclose()

    async def _forward(self, request: Request) -> Response:
        # Read whole: a request that is tried again on a new worker must still be there.
        content = await self._read(request)
        for attempt in (1, 2):
            address = await self._endpoint.address()
            try:
                return await self._send(address, request, content)
            except httpx2.TransportError as error:
                await self._endpoint.lost(address)
                if attempt == 2:
                    raise WorkerUnavailable(
                        f"the worker stopped answering ({type(error).__name__}); send again"
                    ) from error
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    async def _send(self, address: Address, request: Request, content: bytes) -> Response:
        session = self._session(address)
        url = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        outgoing = session.build_request(
            request.method, url, content=content, headers=_kept(request.headers.items())
        )
        answer = await session.send(outgoing, stream=True)

        async def body() -> AsyncIterator[bytes]:
            try:
                async for chunk in answer.aiter_raw():
                    yield chunk
            finally:
                await answer.aclose()

        return StreamingResponse(
            body(), status_code=answer.status_code, headers=dict(_kept(answer.headers.items()))
        )

    async def _read(self, request: Request) -> bytes:
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > self._max_body_bytes:
                raise BodyTooLarge(
                    f"the body is over {self._max_body_bytes:,} bytes (max_body_bytes); "
                    "send fewer items at once"
                )
        return bytes(content)

    def _session(self, address: Address) -> httpx2.AsyncClient:
        if address not in self._sessions:
            transport = httpx2.AsyncHTTPTransport(uds=address.uds) if address.uds else None
            self._sessions[address] = httpx2.AsyncClient(
                base_url=address.base_url,
                transport=transport,
                timeout=httpx2.Timeout(self._timeout_s, connect=5.0),
                trust_env=address.uds is None,
            )
        return self._sessions[address]


def error_response(error: SieError) -> Response:
    """Turn an error into its envelope, as the worker does."""
    headers = {"X-SIE-Error-Code": error.code}
    if error.retry_after_s is not None:
        headers["Retry-After"] = f"{max(error.retry_after_s, 1):.0f}"
    content = {"error": {"code": error.code, "message": str(error)}}
    body = encode_body(content, JSON)
    return Response(body, status_code=error.status, media_type=JSON, headers=headers)


def _kept(headers: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
