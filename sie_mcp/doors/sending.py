"""What a broken connection to the worker means at a door."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from sie_mcp.connection import Address, connection_error


@asynccontextmanager
async def sent_to(worker: Address) -> AsyncIterator[None]:
    """Send inside this.

    Raises:
        SieError: the worker cannot be reached, went, or was silent for too long.
    """
    try:
        yield
    except httpx2.RequestError as error:
        raise connection_error(error, worker) from error
