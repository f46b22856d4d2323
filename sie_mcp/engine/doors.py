"""A worker's doors: processes that read HTTP, kept alive, and ended before it.

Knows processes and their socket; knows neither HTTP nor models.
"""

import asyncio
import contextlib
import logging
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sie_mcp.config import Config
from sie_mcp.doors.order import Order
from sie_mcp.engine.cgroup import Cgroup, usable_cpus
from sie_mcp.errors import SettingError

logger = logging.getLogger(__name__)

CPUS_PER_DOOR, MAX_DOORS = 4, 4
# Before one that ended is started again.
PAUSE_S = 1.0
# For answers that the worker has given.
LAST_WORDS_S = 5.0
COMMAND = (sys.executable, "-m", "sie_mcp.doors")


def num_doors(config: Config, cgroup: Cgroup | None = None) -> int:
    """Return how many doors a worker on a port has; 0: it reads HTTP itself.

    Raises:
        SettingError: `http_processes` cannot be had here.
    """
    reason = _reason_against(config)
    if config.http_processes is not None:
        if config.http_processes > 1 and reason is not None:
            raise SettingError(f"http_processes={config.http_processes} cannot be: {reason}")
        return config.http_processes if config.http_processes > 1 else 0
    number = min(usable_cpus(cgroup or Cgroup()) // CPUS_PER_DOOR, MAX_DOORS)
    return number if number > 1 and reason is None else 0


def _reason_against(config: Config) -> str | None:
    if sys.platform == "win32":
        return "processes share no socket on Windows; leave it out"
    if config.auth != "none" and config.limit_storage.startswith("memory:"):
        return (
            "each would count callers' requests for itself; set limit_storage to "
            "redis://HOST:PORT, or http_processes to 1"
        )
    return None


class NoDoors:
    """Of a worker that reads HTTP itself."""

    are_closed = True

    def start(self) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class Doors:
    """Runs doors until told to leave.

    Args:
        listeners: All accept from them.
        config: Theirs is the worker's.
        number: Of doors.
    """

    def __init__(self, listeners: Sequence[socket.socket], config: Config, number: int) -> None:
        self._listeners = listeners
        self._config = config
        self._number = number
        # Nobody else may enter it, and its name is short enough for a socket's.
        self._folder = Path(tempfile.mkdtemp(prefix="sie-mcp-doors-"))
        self._processes: set[asyncio.subprocess.Process] = set()
        self._is_leaving = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def socket(self) -> str:
        """Where the worker itself listens, for doors alone."""
        return str(self._folder / "worker.sock")

    @property
    def are_closed(self) -> bool:
        """Whether nothing comes by them any more."""
        return self._is_leaving and not self._processes

    def start(self) -> None:
        """Start them, on the running loop."""
        self._tasks = [asyncio.create_task(self._keep()) for _ in range(self._number)]

    def leave(self) -> None:
        """Let nobody in any more; who is in is answered."""
        if self._is_leaving:
            return
        self._is_leaving = True
        for one in self._listeners:
            one.close()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    async def aclose(self) -> None:
        """End them; what they still have to hand on has a while."""
        self.leave()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*self._tasks)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _keep(self) -> None:
        """Run one, and another when it ends."""
        while not self._is_leaving:
            try:
                status = await self._run()
            except OSError as error:
                logger.error("a door cannot be started error=%s; trying again", error)  # noqa: TRY400 (the error says it all)
            else:
                if self._is_leaving:
                    return
                logger.error("a door ended status=%d; starting another", status)
            await asyncio.sleep(PAUSE_S)

    async def _run(self) -> int:
        """Run one; return its status."""
        process = await self._start()
        self._processes.add(process)
        if self._is_leaving:
            process.terminate()
        try:
            return await process.wait()
        finally:
            self._processes.discard(process)

    async def _start(self) -> asyncio.subprocess.Process:
        descriptors = [one.fileno() for one in self._listeners]
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
            # What ends a terminal's programs is for the worker to hear, which ends its doors.
            start_new_session=True,
        )
        assert process.stdin is not None
        order = Order.of(descriptors, self.socket, self._config)
        # The pipe stays open: when it closes, the worker is gone.
        process.stdin.write(order.model_dump_json().encode() + b"\n")
        return process
