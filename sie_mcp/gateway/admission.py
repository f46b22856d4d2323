"""Whether a caller may have a tool or a model, and so much of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from starlette.requests import Request

from sie_mcp.access.allowance import allowance_of
from sie_mcp.codec import decode_body, media_type_of

_PRIMITIVES = ("encode", "score", "extract")
_AUTO = "auto"


@asynccontextmanager
async def admitted(context: Context[Any] | None, tool: str | None = None) -> AsyncIterator[None]:
    """Count a call of a tool, or a reading, for as long as it runs.

    Raises:
        NotAllowed: a tool that is not the caller's.
        RateLimited: too many at once, or in a minute.
    """
    request = context.request_context.request if context is not None else None
    allowance = allowance_of(request.scope) if request is not None else None
    if allowance is None:
        yield
        return
    if tool is not None:
        allowance.check_tool(tool)
    with allowance.running():
        await allowance.count_request()
        yield


async def admit(request: Request, content: bytes) -> None:
    """Ask the caller's allowance before the worker is.

    Raises:
        InvalidInput: the body is none.
        NotAllowed: a model that is not the caller's.
        RateLimited: too much in a minute.
    """
    allowance = allowance_of(request.scope)
    if allowance is None or request.method == "GET":
        return
    verb, _, rest = request.path_params["path"].partition("/")
    if verb == "models":
        allowance.check_model(rest.rpartition("/")[0])
        return
    models = {rest} if verb in _PRIMITIVES else {_AUTO}
    if allowance.principal.models is not None:
        sent = request.headers.get("content-type")
        body = await anyio.to_thread.run_sync(decode_body, content, media_type_of(sent))
        models = {rest} if verb in _PRIMITIVES else {_text(body, "model") or _AUTO}
        models |= _loras(body)
    for model in models:
        allowance.check_model(model)
    await allowance.admit(min(models), len(content))


def _loras(body: Any) -> set[str]:
    """Return the adapters that a body names: what can be fetched by name counts as a model."""
    params = _field(body, "params")
    found = {_text(_field(params, "options"), "lora"), _text(_field(body, "options"), "lora")}
    return found - {""}


def _field(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, dict) else None


def _text(body: Any, name: str) -> str:
    found = _field(body, name)
    return found if isinstance(found, str) else ""
