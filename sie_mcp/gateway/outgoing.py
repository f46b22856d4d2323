"""A request on its way to a worker: what is handed on of the caller's, and what is added here."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.requests import Request

from sie_mcp import request_ids, tracing
from sie_mcp.access.allowance import allowance_of
from sie_mcp.connection import ANYTHING, Want
from sie_mcp.gateway.incoming import Content
from sie_mcp.local_models import LOCAL_MODELS_HEADER
from sie_mcp.tools.context import caller_name

# Headers of one connection, never handed on (RFC 9110, 7.6.1), and those that either side sets.
_OWN_HEADERS = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "date", "server", "expect",
}  # fmt: skip
# Who calls is known here; a worker is told what it needs, and never a credential. What came
# compressed goes on unpacked.
_CALLERS_HEADERS = {
    "authorization", "x-api-key", "cookie", LOCAL_MODELS_HEADER.lower(), "content-encoding",
    request_ids.HEADER.lower(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to any worker.

    Attributes:
        path: With its query and its escapes.
        want: What it is for.
    """

    method: str
    path: str
    headers: list[tuple[str, str]]
    content: Content = field(repr=False)
    want: Want = ANYTHING


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


def as_sent(outgoing: Outgoing) -> list[tuple[str, str]]:
    """Return the headers for who writes them down in UTF-8, so that its bytes come as they came."""
    return [(name, _in_utf8(value)) for name, value in outgoing.headers]


def _in_utf8(value: str) -> str:
    """Return a value that was read as Latin-1 as it was meant; what is no UTF-8 stays."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def headers_for_worker(request: Request, *, allows_local_models: bool) -> list[tuple[str, str]]:
    """Return the caller's headers but its credentials, and what is known of it here."""
    left_out = _CALLERS_HEADERS
    allowance = allowance_of(request.scope)
    is_identified = allowance is not None and allowance.is_identified
    if is_identified:
        # Whatever it calls itself, it has one part of the worker.
        left_out = left_out | {"x-sie-client"}
    marks = {request_ids.HEADER: request_ids.current()}
    tracing.inject(marks)
    if len(marks) > 1:
        left_out = left_out | {one.lower() for one in marks}
    sent = [pair for pair in handed_on(request.headers.items()) if pair[0] not in left_out]
    sent += marks.items()
    sent.append((LOCAL_MODELS_HEADER, "yes" if allows_local_models else "no"))
    if is_identified:
        sent.append(("X-SIE-Client", caller_name(request)))
    return sent


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
