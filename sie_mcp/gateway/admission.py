"""Whether a caller may have a tool or a model, and so much of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from starlette.requests import Request

from sie_mcp.access.allowance import allowance_of
from sie_mcp.codec import decode_body, media_type_of
from sie_mcp.dialects.asked import asked_of, loras_named, model_named
from sie_mcp.dialects.operation import AUTO
from sie_mcp.gateway.incoming import Content, size_of


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


async def admit(request: Request, content: Content) -> None:
    """Ask the caller's allowance before the worker is.

    Args:
        request: Of the caller.
        content: Its body; one that is passed on names nothing that is forbidden.

    Raises:
        InvalidInput: the body is none.
        NotAllowed: a model that is not the caller's.
        RateLimited: too much in a minute.
    """
    allowance = allowance_of(request.scope)
    if allowance is None or request.method == "GET":
        return
    path: str = request.scope["path"]
    asked = asked_of(path, request.method)
    if path.startswith("/v1/models/"):
        allowance.check_model(asked.model)
        return
    models = {asked.model or AUTO}
    num_bytes = size_of(content)
    if allowance.principal.models is not None and isinstance(content, bytes):
        sent = request.headers.get("content-type")
        body = await anyio.to_thread.run_sync(decode_body, content, media_type_of(sent))
        models = {model_named(body, request.headers) if asked.is_in_body else asked.model or AUTO}
        models |= set(loras_named(body))
    for model in models:
        allowance.check_model(model)
    await allowance.admit(min(models), num_bytes)
