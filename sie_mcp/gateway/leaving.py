"""How a gateway leaves: not ready, then no new calls, then those in flight, then gone in any case.

Knows the web server and signals; knows nothing of calls.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable

import uvicorn

from sie_mcp.event_loop import loop_factory

logger = logging.getLogger(__name__)

# After the graceful time: closing connections, and threads that read a file or a store.
CLOSING_S = 5.0


def serve_until_told(
    server: uvicorn.Server, *, drain_s: float, not_ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the drain at once.

    Args:
        server: Its graceful timeout bounds the calls in flight.
        drain_s: How long calls are still taken, so that those who send them can hear of the end.
        not_ready: Let the probe say so.
    """
    graceful_s = float(server.config.timeout_graceful_shutdown or 0)
    loop = loop_factory()()
    is_leaving = False

    def stop() -> None:
        server.should_exit = True

    def leave(*_: object) -> None:
        nonlocal is_leaving
        if is_leaving:
            stop()
            return
        is_leaving = True
        not_ready()
        _end_within(drain_s + graceful_s + CLOSING_S)
        loop.call_soon_threadsafe(loop.call_later, drain_s, stop)

    # The server asks this of itself when a signal comes.
    server.handle_exit = leave  # type: ignore[assignment,method-assign]
    for number in (signal.SIGTERM, signal.SIGINT):
        # It raises the signal again when it is done, for whoever started it.
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(server.serve())


def _end_within(seconds: float) -> None:
    """End the process after so long, whatever hangs."""

    def end() -> None:
        logger.error("did not leave within %.0f s; ending", seconds)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
