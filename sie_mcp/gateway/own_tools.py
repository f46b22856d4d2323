"""Which tools a caller is shown: those that it may call, so that none is paid for in vain."""

from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult

from sie_mcp.access.allowance import allowance_of


async def list_own_tools(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Leave out of `tools/list` what the caller may not call; a middleware.

    Where callers are identified a list is its caller's alone: no cache may give it to others.
    """
    result = await call_next(ctx)
    if ctx.method != "tools/list" or not isinstance(result, dict) or ctx.request is None:
        return result
    allowance = allowance_of(ctx.request.scope)
    if allowance is None or not allowance.is_identified:
        return result
    may_call = allowance.principal.may_call
    tools = [tool for tool in result["tools"] if may_call(tool["name"])]
    scope = {"cacheScope": "private"} if "cacheScope" in result else {}
    return {**result, "tools": tools, **scope}
