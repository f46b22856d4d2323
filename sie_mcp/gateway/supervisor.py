"""The one local worker of a user: start it, join it, end it if it hangs. All gateways share it.

Gateways agree through a lock that the worker itself holds for as long as it lives: whoever gets the
lock knows that no worker lives and may start one, handing the lock on to it. So a gateway that is
killed in mid-start, a worker that is killed, and a worker that is leaving all need no cleaning up.
Knows nothing of models or MCP.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import anyio
import httpx2

from sie_mcp import metrics
from sie_mcp.config import Config
from sie_mcp.connection import ANYTHING, Address, OneWorker, Want
from sie_mcp.errors import SettingError, WorkerUnavailable
from sie_mcp.gateway.lock import Lock, read_note, take_lock
from sie_mcp.gateway.restarts import Restarts
from sie_mcp.gateway.runtime_folder import held_folder
from sie_mcp.gateway.worker_settings import worker_environment, worker_name
from sie_mcp.short_folders import remove_old

logger = logging.getLogger(__name__)

WORKER_COMMAND = (sys.executable, "-m", "sie_mcp", "worker")
# What the command line answers when a setting cannot be used, or when the engine is not installed.
EXIT_SETTING = 2
PROBE_TIMEOUT_S = 2.0
# A worker that takes connections and says nothing for so long is ended. Its own watchdog is as
# patient; this is for one that hangs as a whole.
STUCK_AFTER_S = 60.0
# While calls are made, a worker is asked this often whether it still answers.
WATCH_EVERY_S = 10.0
PROBE_EVERY_S = 0.05
LOG_TAIL_CHARS = 600
MAX_LOG_BYTES = 5_000_000


class LocalWorker(OneWorker):
    """Finds the local worker, starting it when needed. Safe for many tasks and processes.

    Args:
        config: The settings; those of the worker travel to it through its environment.
        command: The worker's program; `--uds PATH` is added.
        stuck_after_s: How long a worker may be silent.
        watch_every_s: How often it is asked while calls are made.
    """

    def __init__(
        self,
        config: Config,
        command: Sequence[str] = WORKER_COMMAND,
        *,
        stuck_after_s: float = STUCK_AFTER_S,
        watch_every_s: float = WATCH_EVERY_S,
    ) -> None:
        self._config = config
        self._command = tuple(command)
        self._stuck_after_s = stuck_after_s
        self._watch_every_s = watch_every_s
        name = worker_name(config)
        folder, use = held_folder(config.runtime_dir, f"{name}.sock")
        if use is not None:
            # At the end of the process, or before, when nobody has this one any more.
            weakref.finalize(self, use.end)
        self._socket = folder / f"{name}.sock"
        self._lock_path = folder / f"{name}.lock"
        self._log_path = folder / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._search: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._called_s = 0.0
        self._is_known_alive = False
        self._restarts = Restarts()
        self._silent_since_s: float | None = None

    async def address(self, want: Want = ANYTHING) -> Address:
        """Return the worker's address once it answers; a caller who leaves does not stop its start.

        Raises:
            WorkerUnavailable: it died at its start or never answered; the message holds the end
                of its log.
            SettingError: it refused its settings, or the engine is not installed.
        """
        self._called_s = time.monotonic()
        if not self._is_known_alive:
            search = self._search = self._search or asyncio.create_task(self._start_or_join())
            try:
                await asyncio.shield(search)
            finally:
                if search.done() and self._search is search:
                    self._search = None
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_it())
        return self._address()

    async def find(self) -> Address | None:
        """Return the worker's address if one runs; start none."""
        async with self._prober() as probe:
            return self._address() if await self._answers(probe) else None

    async def lost(self, address: Address, want: Want = ANYTHING) -> None:
        """Look again before the next call."""
        self._is_known_alive = False
        self._reap()

    async def _start_or_join(self) -> None:
        """Return once a worker answers."""
        async with self._prober() as probe:
            with anyio.move_on_after(self._config.worker_start_timeout_s):
                started: _Started | None = None
                while not await self._answers(probe):
                    # One that ends lets go of the lock a moment before its end is known.
                    if started is not None:
                        started.raise_if_it_ended()
                    else:
                        started = self._start_if_none_lives()
                    await anyio.sleep(PROBE_EVERY_S)
                self._is_known_alive = True
                return
        raise self._no_answer()

    def _no_answer(self) -> WorkerUnavailable:
        wait_s = self._restarts.wait_s(time.monotonic())
        if wait_s > 0:
            return WorkerUnavailable(
                f"the local worker was started {self._restarts.num_in_a_row} times in a row and "
                f"ended each time; the next start is in {wait_s:.1f} s; its log: {self._log_path}",
                retry_after_s=wait_s,
            )
        return WorkerUnavailable(
            f"the worker (process {read_note(self._lock_path)}) did not answer within "
            f"{self._config.worker_start_timeout_s:g} s (worker_start_timeout_s); one that stays "
            f"silent is ended after {self._stuck_after_s:g} s; its log: {self._log_path}",
            retry_after_s=5.0,
        )

    def _address(self) -> Address:
        return Address(base_url="http://worker", uds=str(self._socket))

    async def _watch_it(self) -> None:
        """See, while calls are made and for as long as one may take, that the worker answers."""
        async with self._prober() as probe:
            while time.monotonic() - self._called_s < self._config.request_timeout_s:
                await anyio.sleep(self._watch_every_s)
                if self._is_known_alive:
                    await self._answers(probe)

    def _prober(self) -> httpx2.AsyncClient:
        transport = httpx2.AsyncHTTPTransport(uds=str(self._socket), verify=False)
        return httpx2.AsyncClient(transport=transport, timeout=PROBE_TIMEOUT_S)

    async def _answers(self, probe: httpx2.AsyncClient) -> bool:
        """Ask the socket; a worker that is leaving counts as gone, one silent for long is ended."""
        if not self._socket.exists():
            return False
        try:
            response = await probe.get("http://worker/readyz")
        except httpx2.TimeoutException:
            self._end_if_stuck()
            return False
        except httpx2.TransportError:
            self._silent_since_s = None
            return False
        self._silent_since_s = None
        # One that preloads takes calls; only a cluster has others to send them to meanwhile.
        return response.status_code == 200 or b"preloading" in response.content

    def _end_if_stuck(self) -> None:
        now_s = time.monotonic()
        if self._silent_since_s is None:
            self._silent_since_s = now_s - PROBE_TIMEOUT_S
        silence_s = now_s - self._silent_since_s
        if silence_s < self._stuck_after_s:
            return
        lock = take_lock(self._lock_path)
        if lock is not None:
            with lock:  # It ended by itself; whoever wants one starts another.
                return
        pid = read_note(self._lock_path)
        if not pid.isdigit():
            return
        logger.error("ending a worker that is silent pid=%s seconds=%.0f", pid, silence_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
        self._is_known_alive = False
        self._silent_since_s = None

    def _start_if_none_lives(self) -> "_Started | None":
        """Start a worker unless one lives, or unless too many died lately."""
        if self._restarts.wait_s(time.monotonic()) > 0:
            return None
        lock = take_lock(self._lock_path)
        return None if lock is None else self._spawn(lock)

    def _spawn(self, lock: Lock) -> "_Started":
        """Start the worker and hand the lock on to it. None lives now, so what lies here is old."""
        self._reap()
        remove_old()
        with lock, self._open_log() as log:
            self._socket.unlink(missing_ok=True)
            log_start = log.tell()
            self._child = subprocess.Popen(
                [*self._command, "--uds", str(self._socket)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | worker_environment(self._config),
                cwd=self._socket.parent,
                pass_fds=(lock.fd,),
                # Its own group: an interrupt meant for this process must not stop it.
                start_new_session=True,
            )
            lock.note(str(self._child.pid))
        self._restarts.started(time.monotonic())
        metrics.WORKER_STARTS.inc()
        logger.info("worker started pid=%d log=%s", self._child.pid, self._log_path)
        return _Started(self._child, self._log_path, log_start)

    def _open_log(self) -> BinaryIO:
        """Open the log to append to; a long one becomes the old one, of which one is kept."""
        if self._log_path.exists() and self._log_path.stat().st_size > MAX_LOG_BYTES:
            self._log_path.replace(self._log_path.with_suffix(".log.1"))
        log = self._log_path.open("ab")
        log.seek(0, os.SEEK_END)
        return log

    def _reap(self) -> None:
        """Collect a child that ended, so that it does not stay as a zombie."""
        if self._child is not None and (code := self._child.poll()) is not None:
            if code:
                logger.warning("the worker ended pid=%d code=%d", self._child.pid, code)
            self._child = None


@dataclass(frozen=True, slots=True)
class _Started:
    """A worker that this process started and that has not answered yet."""

    child: subprocess.Popen[bytes]
    log_path: Path
    log_start: int

    def raise_if_it_ended(self) -> None:
        code = self.child.poll()
        if code is None:
            return
        with self.log_path.open("rb") as log:
            log.seek(self.log_start)
            text = log.read().decode("utf-8", "replace").strip()
        if code == EXIT_SETTING:
            reason = text.rpartition("\n")[2].removeprefix("sie-mcp: ")
            raise SettingError(f"the local worker cannot start: {reason}")
        raise WorkerUnavailable(
            f"the local worker ended at its start with code {code}; the end of its log: "
            f"{text[-LOG_TAIL_CHARS:] or 'nothing'}",
            retry_after_s=5.0,
        )
