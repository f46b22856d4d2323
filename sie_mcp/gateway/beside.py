"""Work with something that goes on beside it, for as long as the work does."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pydantic
from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError

# What work raises on purpose. Raised inside a task group it would come out wrapped.
EXPECTED = (ToolError, MCPError, pydantic.ValidationError)
Beside = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]


async def with_beside(beside: Beside, work: Callable[[], Awaitable[Any]]) -> Any:
    """Await the work; None if what runs beside it ended it.

    Args:
        beside: Is given a function that ends the work; is cancelled when the work is done.
    """
    result: Any = None
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(beside, group.cancel_scope.cancel)
        try:
            result = await work()
        except EXPECTED as error:
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result
