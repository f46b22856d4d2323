"""A worker's life: on a socket, ready, leaving in order, and gone; or failed, and gone fast.

Knows the web server and the signals; knows nothing of models.
"""

import asyncio
import logging
import os
import signal
import socket
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
from sie_mcp.engine.doors import Doors, NoDoors
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
    num_doors: int = 0,
) -> None:
    """Serve until SIGTERM, or until idle for `worker_idle_exit_s` on a Unix socket.

    Args:
        worker: What to serve.
        config: The settings.
        uds: A Unix socket; else `host` and `port`.
        num_doors: Processes that read HTTP at the port; 0: this one does.

    Raises:
        SystemExit: the device was lost; its status is EXIT_FAILED.
    """
    options = uvicorn.Config(
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
    idle_exit_s = config.worker_idle_exit_s if uds is not None else 0.0
    doors: Doors | NoDoors = NoDoors()
    if num_doors:
        listeners = _listeners(host, options.port, options.backlog)
        doors = Doors(listeners, config, num_doors)
        options.uds = doors.socket
    server = WebServer(options)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(server, worker, doors, idle_exit_s, float(config.graceful_timeout_s)))
    if worker.has_failed:
        sys.exit(EXIT_FAILED)


def _listeners(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Return sockets on which callers wait until doors let them in, one for each address of a host.

    Raises:
        SystemExit: the port is in use, or the host is none of this machine.
    """
    listeners: list[socket.socket] = []
    try:
        listeners += asyncio.run(_bound(host, port))
        for one in listeners:
            # Several may have bound it; the first that listens has it.
            one.listen(backlog)
    except OSError as error:
        logger.error("host=%s port=%d cannot be had: %s", host, port, error)  # noqa: TRY400 (no bug)
        for one in listeners:
            one.close()
        sys.exit(1)
    for one in listeners:
        logger.info("listening address=%s port=%d", *one.getsockname()[:2])
    return listeners


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Return what a server that reads HTTP itself would listen on."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
    bound = [socket.socket(fileno=os.dup(one.fileno())) for one in server.sockets]
    server.close()
    return bound


async def _serve(
    server: uvicorn.Server,
    worker: Worker,
    doors: Doors | NoDoors,
    idle_exit_s: float,
    graceful_s: float,
) -> None:
    """Serve; leave when told to, when idle too long or when failed."""
    uds, leaving = server.config.uds, _Leaving(server, worker, doors)
    # The web server raises the signal once more when it is done; the default would end the process
    # there and then, with a status that says killed.
    signal.signal(signal.SIGTERM, leaving.begin)
    serving = asyncio.create_task(server.serve())
    await _until_started(server, serving, uds)
    worker.watchdog.start()
    doors.start()
    beside = _start_beside(worker)
    while not serving.done():
        await asyncio.wait({serving}, timeout=LOOK_EVERY_S)
        if worker.has_failed:
            leaving.begin()
        elif _is_unused(worker.activity, idle_exit_s):
            logger.info("leaving after idle_s=%.0f", worker.activity.idle_s())
            leaving.begin()
        if server.should_exit and not worker.activity.is_draining:
            leaving.begin()
        if worker.activity.is_draining:
            leaving.go_on(graceful_s)
    for task in beside:
        task.cancel()
    await serving
    await doors.aclose()
    if uds is not None:
        _leave_socket(Path(uds), in_order=not worker.has_failed)


@dataclass(slots=True)
class _Leaving:
    """A worker's last part: nobody comes in any more, what is in hand is done, or is late."""

    server: uvicorn.Server
    worker: Worker
    doors: Doors | NoDoors
    since_s: float | None = None

    def begin(self, *_: object) -> None:
        """Let nobody in any more."""
        self.worker.activity.is_draining = True
        self.doors.leave()
        self.server.should_exit = self._is_free()

    def go_on(self, graceful_s: float) -> None:
        """End the server once nothing is in hand; when it is late, whatever is."""
        if self.since_s is None:
            self.since_s = time.monotonic()
            self.worker.watchdog.end_within(graceful_s + CLOSING_S, 0)
        last_word_s = max(graceful_s - LAST_WORD_S, graceful_s / 2)
        is_late = time.monotonic() - self.since_s > last_word_s
        self.server.should_exit |= is_late or self._is_free()
        if is_late:
            for device in self.worker.devices:
                device.abandon("the worker is leaving; call again")

    def _is_free(self) -> bool:
        # What was pulled, and what came by doors, is no connection of the web server's own.
        return self.worker.is_empty_handed and self.doors.are_closed


def _is_unused(activity: Activity, idle_exit_s: float) -> bool:
    is_idle = bool(idle_exit_s) and activity.idle_s() > idle_exit_s
    return is_idle and not activity.is_draining


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
