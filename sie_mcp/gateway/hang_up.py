"""Work that ends when nobody waits for it: an HTTP client that hung up is noticed here."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError

HANG_UP_POLL_S = 0.25


async def unless_gone(request: Any, work: Callable[[], Awaitable[Any]]) -> Any:
    """Await the work; None when the HTTP client hung up, of which not every SDK mode tells us.

    Args:
        request: The HTTP request; None where there is none, and nobody can hang up.
    """
    if request is None:
        return await work()
    result: Any = None
    failure: ToolError | MCPError | None = None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while not await request.is_disconnected():
                await anyio.sleep(HANG_UP_POLL_S)
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            result = await work()
        except (ToolError, MCPError) as error:
            failure = error  # Raised inside the group it would come out wrapped.
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result
