"""A worker's life: on a socket, ready, leaving in order, and gone; or failed, and gone fast.

Knows the web server and the signals; knows nothing of models.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from sie_mcp.config import Config
from sie_mcp.connection import SERVER_KEEP_ALIVE_S
from sie_mcp.engine.calibration import Calibration
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.idle_proof import IdleProof
from sie_mcp.engine.pulling.pulling import Pulling
from sie_mcp.engine.server import Activity
from sie_mcp.engine.watchdog import EXIT_FAILED, Watchdog
from sie_mcp.event_loop import loop_factory
from sie_mcp.http_protocol import HttpProtocol
from sie_mcp.short_folders import leave as leave_folder
from sie_mcp.web_server import WebServer

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
# What still runs when the graceful time ends is answered so long before, rather than cut off.
LAST_WORD_S = 1.0
# After the graceful time: closing threads and libraries. Then the watchdog ends the process.
CLOSING_S = 15.0


@dataclass(frozen=True, slots=True)
class Worker:
    """What runs as one process."""

    app: ASGIApp
    devices: tuple[DeviceThread, ...]
    activity: Activity
    watchdog: Watchdog
    proofs: tuple[IdleProof, ...]
    pulling: Pulling | None = None
    calibrations: tuple[Calibration, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether a device was lost."""
        return any(device.failure is not None for device in self.devices)

    @property
    def is_empty_handed(self) -> bool:
        """Whether nothing runs that was pulled."""
        return self.pulling is None or self.pulling.is_idle


def serve(
    worker: Worker,
    config: Config,
    *,
    uds: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
) -> None:
    """Serve until SIGTERM, or until idle for `worker_idle_exit_s` on a Unix socket.

    Raises:
        SystemExit: the device was lost; its status is EXIT_FAILED.
    """
    server = WebServer(
        uvicorn.Config(
            worker.app,
            uds=uds,
            host=host,
            port=port or 0,
            log_config=None,
            http=HttpProtocol,
            access_log=False,
            timeout_graceful_shutdown=config.graceful_timeout_s,
            timeout_keep_alive=SERVER_KEEP_ALIVE_S,
        )
    )
    idle_exit_s = config.worker_idle_exit_s if uds is not None else 0.0
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(server, worker, uds, idle_exit_s, float(config.graceful_timeout_s)))
    if worker.has_failed:
        sys.exit(EXIT_FAILED)


async def _serve(
    server: uvicorn.Server, worker: Worker, uds: str | None, idle_exit_s: float, graceful_s: float
) -> None:
    """Serve; leave when told to, when idle too long or when failed."""

    def leave(*_: object) -> None:
        # What was pulled is no connection, for whose end the web server would wait.
        worker.activity.is_draining = True
        server.should_exit = worker.is_empty_handed

    # The web server raises the signal once more when it is done; the default would end the process
    # there and then, with a status that says killed.
    signal.signal(signal.SIGTERM, leave)
    serving = asyncio.create_task(server.serve())
    await _until_started(server, serving, uds)
    worker.watchdog.start()
    beside = _start_beside(worker)
    leaving_since_s: float | None = None
    while not serving.done():
        await asyncio.wait({serving}, timeout=LOOK_EVERY_S)
        if worker.has_failed:
            leave()
        elif (
            idle_exit_s
            and worker.activity.idle_s() > idle_exit_s
            and not worker.activity.is_draining
        ):
            logger.info("leaving after idle_s=%.0f", worker.activity.idle_s())
            leave()
        if server.should_exit and not worker.activity.is_draining:
            leave()
        if worker.activity.is_draining and leaving_since_s is None:
            leaving_since_s = time.monotonic()
            worker.watchdog.end_within(graceful_s + CLOSING_S, 0)
        if leaving_since_s is not None:
            _end_work(server, worker, is_late=_is_late(leaving_since_s, graceful_s))
    for task in beside:
        task.cancel()
    await serving
    if uds is not None:
        _leave_socket(Path(uds), in_order=not worker.has_failed)


def _leave_socket(socket: Path, *, in_order: bool) -> None:
    socket.unlink(missing_ok=True)
    if in_order:
        leave_folder(socket)


def _start_beside(worker: Worker) -> list[asyncio.Task[None]]:
    """Start what runs beside the web server until it ends."""
    beside = [asyncio.create_task(one.run(worker.activity)) for one in worker.proofs]
    beside += [asyncio.create_task(one.run(worker.activity)) for one in worker.calibrations]
    if worker.pulling is not None:
        beside.append(asyncio.create_task(worker.pulling.run()))
    return beside


def _end_work(server: uvicorn.Server, worker: Worker, *, is_late: bool) -> None:
    """Close the doors once nothing is in hand that was pulled; when it is late, whatever is."""
    server.should_exit |= is_late or worker.is_empty_handed
    if is_late:
        for device in worker.devices:
            device.abandon("the worker is leaving; call again")


def _is_late(leaving_since_s: float, graceful_s: float) -> bool:
    last_word_s = max(graceful_s - LAST_WORD_S, graceful_s / 2)
    return time.monotonic() - leaving_since_s > last_word_s


async def _until_started(
    server: uvicorn.Server, serving: asyncio.Task[None], uds: str | None
) -> None:
    """Wait until the socket is there; it is the owner's alone."""
    # uvicorn makes the socket file with the process's mask.
    previous = os.umask(0o177) if uds is not None else None
    try:
        while not server.started and not serving.done():
            await asyncio.wait({serving}, timeout=0.02)
    finally:
        if previous is not None:
            os.umask(previous)
