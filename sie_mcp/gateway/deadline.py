"""A request's deadline at the gateway: nobody waits for a worker longer than for its answer.

A worker keeps to the same deadline in its own words; here it ends what no worker hears of.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from starlette.requests import Request

from sie_mcp.connection import GRACE_S
from sie_mcp.errors import DeadlineExceeded

ResultT = TypeVar("ResultT")
HEADER = "X-SIE-Timeout"


async def within_deadline(
    request: Request, timeout_s: float, work: Callable[[], Awaitable[ResultT]]
) -> ResultT:
    """Await the work for as long as its caller waits, `timeout_s` at most.

    Raises:
        DeadlineExceeded: it takes longer.
    """
    said_s = _said_s(request)
    is_callers = said_s is not None and said_s < timeout_s
    limit_s = said_s if is_callers and said_s is not None else timeout_s
    with anyio.move_on_after(limit_s + GRACE_S):
        return await work()
    setting = HEADER if is_callers else "request_timeout_s"
    raise DeadlineExceeded(f"no worker was done after {limit_s:g} s ({setting}); call again")


def _said_s(request: Request) -> float | None:
    """Return what the caller says; what cannot be read is the worker's to refuse."""
    try:
        said_s = float(request.headers.get(HEADER, ""))
    except ValueError:
        return None
    return said_s if said_s > 0 else None
