"""The one local worker of a user: start it, join it, restart it. All gateways share it.

Gateways agree through a file lock and a private Unix socket whose name holds the package version
and every setting that changes what the worker does. Knows nothing of models or MCP.
"""

import hashlib
import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
import anyio.to_thread
import filelock
import httpx2

import sie_mcp
from sie_mcp import metrics
from sie_mcp.client import Address
from sie_mcp.config import PREFIX, Config
from sie_mcp.errors import SettingError, WorkerUnavailable

logger = logging.getLogger(__name__)

# Longest path of a Unix socket is 104 bytes on macOS, 108 on Linux.
MAX_SOCKET_PATH = 100
PROBE_TIMEOUT_S = 2.0
PROBE_EVERY_S = 0.05
LOG_TAIL_CHARS = 600
MAX_LOG_BYTES = 5_000_000
# Settings of the worker: a gateway with others needs another worker.
_WORKER_SETTINGS = (
    "cache_dir", "catalogue_file", "offline", "hub_endpoint", "index_url", "download_timeout_s",
    "device", "dtype", "memory_budget", "num_threads", "allow_remote_code", "max_batch_tokens",
    "max_batch_sequences", "max_queue_tokens", "max_queue_age_s", "max_items", "max_item_chars",
    "max_body_bytes", "tokenizer_threads", "request_timeout_s", "worker_idle_exit_s", "log_level",
)  # fmt: skip


class LocalWorker:
    """Finds the local worker, starting it when needed. Safe for many tasks and processes."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._folder = _runtime_folder(config.runtime_dir)
        name = worker_name(config)
        self._socket = self._folder / f"{name}.sock"
        self._lock_path = self._folder / f"{name}.lock"
        self._log_path = self._folder / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._is_known_alive = False
        self._starting = anyio.Lock()

    async def address(self) -> Address:
        """Return the worker's address once it answers.

        Raises:
            WorkerUnavailable: it could not be started; the message holds the end of its log.
            SettingError: this platform has no Unix sockets.
        """
        address = Address(base_url="http://worker", uds=str(self._socket))
        if self._is_known_alive:
            return address
        async with self._starting:
            if not self._is_known_alive:
                await anyio.to_thread.run_sync(self._start_or_join, abandon_on_cancel=True)
                self._is_known_alive = True
        return address

    async def lost(self, address: Address) -> None:
        """Look again before the next call."""
        self._is_known_alive = False

    def _start_or_join(self) -> None:
        """Return once the worker answers; one process at a time starts it."""
        if self._answers():
            return
        deadline_s = time.monotonic() + self._config.worker_start_timeout_s
        try:
            with filelock.FileLock(self._lock_path, timeout=self._config.worker_start_timeout_s):
                if not self._answers():
                    self._spawn()
                    self._wait_until_it_answers(deadline_s)
        except filelock.Timeout as error:
            raise WorkerUnavailable(
                "another process has been starting the worker for "
                f"{self._config.worker_start_timeout_s:.0f} s; call again"
            ) from error

    def _answers(self) -> bool:
        """Ask the socket; a worker that is going away counts as gone."""
        if not self._socket.exists():
            return False
        transport = httpx2.HTTPTransport(uds=str(self._socket))
        try:
            with httpx2.Client(transport=transport, timeout=PROBE_TIMEOUT_S) as client:
                return client.get("http://worker/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def _spawn(self) -> None:
        self._reap()
        self._socket.unlink(missing_ok=True)
        if self._log_path.exists() and self._log_path.stat().st_size > MAX_LOG_BYTES:
            self._log_path.replace(self._log_path.with_suffix(".log.1"))
        environment = os.environ | worker_environment(self._config)
        with self._log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "sie_mcp", "worker", "--uds", str(self._socket)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
                # Its own group: an interrupt meant for this process must not stop it.
                start_new_session=True,
            )
        metrics.WORKER_STARTS.inc()
        logger.info("worker started pid=%d log=%s", self._child.pid, self._log_path)

    def _wait_until_it_answers(self, deadline_s: float) -> None:
        assert self._child is not None
        while not self._answers():
            if self._child.poll() is not None:
                raise WorkerUnavailable(
                    f"the worker left at start with code {self._child.returncode}: {self._tail()}",
                    retry_after_s=5.0,
                )
            if time.monotonic() > deadline_s:
                raise WorkerUnavailable(
                    f"the worker did not answer within {self._config.worker_start_timeout_s:.0f} s "
                    f"(worker_start_timeout_s): {self._tail()}",
                    retry_after_s=5.0,
                )
            time.sleep(PROBE_EVERY_S)

    def _reap(self) -> None:
        """Collect a child that ended, so that it does not stay as a zombie."""
        if self._child is not None:
            self._child.poll()

    def _tail(self) -> str:
        text = self._log_path.read_text("utf-8", "replace") if self._log_path.exists() else ""
        return text[-LOG_TAIL_CHARS:].strip() or "its log is empty"


def worker_name(config: Config) -> str:
    """Return a short name that two gateways share exactly when they can share a worker."""
    settings = worker_environment(config)
    settings["version"] = sie_mcp.__version__
    settings["python"] = sys.prefix
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return f"worker-{digest[:16]}"


def worker_environment(config: Config) -> dict[str, str]:
    """Return the worker's settings as environment variables."""
    values = {name: getattr(config, name) for name in _WORKER_SETTINGS}
    return {
        PREFIX + name.upper(): str(value) for name, value in values.items() if value is not None
    }


def _runtime_folder(wanted: Path) -> Path:
    """Return a folder of the user's own, short enough for a socket's name."""
    if sys.platform == "win32":
        raise SettingError(
            "the shared local worker needs Unix sockets; run `sie-mcp worker --port 9000` and set "
            "SIE_MCP_WORKER_URL=http://127.0.0.1:9000"
        )
    longest = len(str(wanted / ("worker-" + "0" * 16 + ".sock")))
    folder = wanted
    if longest > MAX_SOCKET_PATH:
        digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:8]
        folder = Path(tempfile.gettempdir()) / f"sie-mcp-{os.getuid()}-{digest}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"runtime_dir {folder} cannot be made: {error}") from error
    _require_private(folder)
    return folder


def _require_private(folder: Path) -> None:
    """Refuse a folder that others could put a socket into."""
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise SettingError(
            f"runtime_dir {folder} is not a folder of this user; set SIE_MCP_RUNTIME_DIR to one"
        )
    if state.st_mode & 0o077:
        folder.chmod(0o700)
