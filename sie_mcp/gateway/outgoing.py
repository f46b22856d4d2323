"""A request on its way to a worker: what is handed on of the caller's, and what is added here."""

from dataclasses import dataclass, field

from starlette.requests import Request

from sie_mcp import request_ids, tracing
from sie_mcp.access.allowance import allowance_of
from sie_mcp.connection import ANYTHING, Want
from sie_mcp.gateway.incoming import Content
from sie_mcp.handing_on import handed_on
from sie_mcp.local_models import LOCAL_MODELS_HEADER
from sie_mcp.tools.context import caller_name

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
