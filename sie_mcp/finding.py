"""Waiting for a worker, and telling the caller of it. Knows endpoints; sends nothing."""

from collections.abc import Awaitable, Callable

import anyio

from sie_mcp.connection import Address, Endpoint, Want
from sie_mcp.errors import ModelLoading, SieError
from sie_mcp.retry import Patience

# progress(done, total, message): how far a list is, or what is being waited for.
Progress = Callable[[int, int, str], Awaitable[None]]
# Whoever waits for a load or a start hears of it this often.
NEWS_EVERY_S = 2.0


async def find_worker(
    endpoint: Endpoint, want: Want, patience: Patience, progress: Progress | None
) -> Address:
    """Return the endpoint's worker, which may have to start first.

    Raises:
        ModelLoading: patience ended before it had.
        SieError: the endpoint's own.
    """
    address: Address | None = None
    failure: SieError | None = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_tell, patience, progress)
            with anyio.move_on_after(patience.load_left_s):
                try:
                    address = await endpoint.address(want)
                except SieError as error:
                    failure = error  # Raised inside the group it would come out wrapped.
            group.cancel_scope.cancel()
    except BaseException:
        if address is not None:
            endpoint.done(address, want)
        raise
    if failure is not None:
        raise failure
    if address is None:
        raise ModelLoading(_message(patience), retry_after_s=NEWS_EVERY_S)
    return address


async def _tell(patience: Patience, progress: Progress | None) -> None:
    """Tell the caller now and then that a worker is waited for, until cancelled."""
    while True:
        await anyio.sleep(NEWS_EVERY_S)
        if progress:
            await progress(0, 1, _message(patience))


def _message(patience: Patience) -> str:
    return f"the worker is starting ({patience.waited_s:.0f} s)"
