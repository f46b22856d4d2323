"""What a request handed on asks for: read from its path, and from its body where that says it."""

from contextlib import suppress
from typing import Any

from starlette.requests import Request

from sie_mcp.codec import decode_body, media_type_of
from sie_mcp.connection import Want
from sie_mcp.dialects.asked import asked_of, loras_named, model_named
from sie_mcp.errors import InvalidInput

# A larger body is not read for its adapter: where its base model is, the adapter can come.
MAX_READ_BYTES = 256 * 1024


def read_want(request: Request, content: bytes) -> Want:
    """Return what decides which worker gets the request. A wrong body is the worker's to refuse."""
    asked = asked_of(request.scope["path"], request.method)
    pool = request.headers.get("X-SIE-Pool")
    priority = request.headers.get("X-SIE-Priority", "interactive").strip().lower()
    way = request.headers.get("X-SIE-Transport")
    if asked.is_in_body:
        model = model_named(_decoded(request, content), request.headers)
        return Want(model, pool=pool, priority=priority, transport=way)
    if asked.has_lora:
        body = _decoded(request, content) if len(content) <= MAX_READ_BYTES else None
        lora = next(iter(loras_named(body)), None)
        return Want(asked.model, lora, pool, priority=priority, transport=way)
    return Want(asked.model, pool=pool)


def _decoded(request: Request, content: bytes) -> Any:
    if request.method == "GET":
        return None
    with suppress(InvalidInput):
        return decode_body(content, media_type_of(request.headers.get("content-type")))
    return None
