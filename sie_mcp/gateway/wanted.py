"""What a request handed on asks for: read from its path, and from its body where that says it."""

from collections.abc import Mapping
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
    if asked.is_in_body:
        model = model_named(_decoded(request, content), request.headers)
        return want_of(request.headers, model)
    if asked.has_lora:
        body = _decoded(request, content) if _may_name_lora(content) else None
        return want_of(request.headers, asked.model, next(iter(loras_named(body)), None))
    return Want(asked.model, pool=request.headers.get("X-SIE-Pool"))


def want_of(headers: Mapping[str, str], model: str, lora: str | None = None) -> Want:
    """Return what runs a model, as the headers say."""
    return Want(
        model,
        lora,
        headers.get("X-SIE-Pool"),
        priority=headers.get("X-SIE-Priority", "interactive").strip().lower(),
        transport=headers.get("X-SIE-Transport"),
    )


def _may_name_lora(content: bytes) -> bool:
    """Whether a body can name one: reading it whole takes longer than all else here."""
    if len(content) > MAX_READ_BYTES:
        return False
    # JSON may write any letter as an escape.
    return b"lora" in content or b"\\u" in content


def _decoded(request: Request, content: bytes) -> Any:
    if request.method == "GET":
        return None
    with suppress(InvalidInput):
        return decode_body(content, media_type_of(request.headers.get("content-type")))
    return None
