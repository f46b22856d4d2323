"""What is handed on of a request and of an answer by who stands between their ends.

Knows HTTP's rules for that; knows neither end.
"""

from collections.abc import AsyncIterator, Iterable, Sequence

import httpx2
from starlette.requests import Request

# Headers of one connection, never handed on (RFC 9110, 7.6.1), and those that either side sets.
_OWN_HEADERS = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "date", "server", "expect",
}  # fmt: skip


def path_as_sent(request: Request) -> str:
    """Return path and query with their escapes; dots that would walk up are escaped too."""
    path = request.scope.get("raw_path", request.url.path.encode()).decode("ascii", "replace")
    if "/." in path:
        path = "/".join(
            segment.replace(".", "%2E") if segment in (".", "..") else segment
            for segment in path.split("/")
        )
    query = request.scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def as_sent(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers for who writes them down in UTF-8, so that its bytes come as they came."""
    return [(name, _in_utf8(value)) for name, value in headers]


def _in_utf8(value: str) -> str:
    """Return a value that was read as Latin-1 as it was meant; what is no UTF-8 stays."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def handed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out what belongs to one connection, what Connection itself names included."""
    pairs = [(name.lower(), value) for name, value in headers]
    named = {
        token.strip().lower()
        for name, value in pairs
        if name == "connection"
        for token in value.split(",")
    }
    left_out = _OWN_HEADERS | named
    return [(name, value) for name, value in pairs if name not in left_out]


async def body_of(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield an answer's body as it came, and let go of its connection."""
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()
