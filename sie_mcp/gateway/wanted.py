"""What a request handed on asks for: read from its path, and from its body where that says it."""

from contextlib import suppress
from typing import Any

from starlette.requests import Request

from sie_mcp.codec import decode_body, media_type_of
from sie_mcp.connection import Want
from sie_mcp.errors import InvalidInput

_IN_PATH = ("encode", "score", "extract")
_IN_BODY = ("embeddings", "rerank")
_AUTO = "auto"
# A larger body is not read for its adapter: where its base model is, the adapter can come.
MAX_READ_BYTES = 256 * 1024


def read_want(request: Request, content: bytes) -> Want:
    """Return what decides which worker gets the request. A wrong body is the worker's to refuse."""
    verb, _, rest = request.path_params["path"].partition("/")
    pool = request.headers.get("X-SIE-Pool")
    priority = request.headers.get("X-SIE-Priority", "interactive").strip().lower()
    way = request.headers.get("X-SIE-Transport")
    if verb in _IN_BODY:
        return Want(
            _text(_decoded(request, content), "model") or _AUTO,
            None,
            pool,
            priority=priority,
            transport=way,
        )
    if verb in _IN_PATH:
        body = _decoded(request, content) if len(content) <= MAX_READ_BYTES else None
        return Want(rest, _lora(body), pool, priority=priority, transport=way)
    if verb == "models" and request.method == "POST":
        return Want(rest.rpartition("/")[0], pool=pool)
    return Want(pool=pool)


def _decoded(request: Request, content: bytes) -> Any:
    with suppress(InvalidInput):
        return decode_body(content, media_type_of(request.headers.get("content-type")))
    return None


def _lora(body: Any) -> str | None:
    params = body.get("params") if isinstance(body, dict) else None
    for holder in (params, body):
        options = holder.get("options") if isinstance(holder, dict) else None
        if found := _text(options, "lora"):
            return found
    return None


def _text(holder: Any, name: str) -> str | None:
    found = holder.get(name) if isinstance(holder, dict) else None
    return found if isinstance(found, str) else None
