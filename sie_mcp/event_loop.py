"""The event loop of servers: uvloop's, where it is to be had.

Knows no server.
"""

import asyncio
import importlib
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes loops; uvloop is not built for Windows."""
    try:
        made: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
            "uvloop"
        ).new_event_loop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    return made
