"""Work that ends when nobody waits for it: an HTTP client that hung up is noticed here."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from sie_mcp.gateway.beside import with_beside

HANG_UP_POLL_S = 0.25


async def unless_gone(request: Any, work: Callable[[], Awaitable[Any]]) -> Any:
    """Await the work; None when the HTTP client hung up, of which not every SDK mode tells us.

    Args:
        request: The HTTP request; None where there is none, and nobody can hang up.
    """
    if request is None:
        return await work()

    async def watch(end: Callable[[], None]) -> None:
        while not await request.is_disconnected():
            await anyio.sleep(HANG_UP_POLL_S)
        end()

    return await with_beside(watch, work)
