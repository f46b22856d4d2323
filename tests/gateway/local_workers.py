"""Local workers over one folder: stand-ins, and what was started of them."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import psutil

from sie_mcp.config import Config
from sie_mcp.connection import Address
from sie_mcp.gateway.supervisor import LocalWorker

STAND_IN = Path(__file__).parent / "stand_in_worker.py"


class Rig:
    """Local workers over one folder, and what was started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._starts = folder / "starts"
        self._made: list[LocalWorker] = []

    def command(self, *options: object) -> list[str]:
        flags = [str(option) for option in options]
        return [sys.executable, str(STAND_IN), "--starts", str(self._starts), *flags]

    def config(self, **settings: object) -> Config:
        own = {"runtime_dir": self.folder / "run", "worker_start_timeout_s": 60.0}
        return Config(**(own | settings))

    def local(self, *options: object, **settings: object) -> LocalWorker:
        """A gateway's view of the worker; each is as good as one in another process."""
        made = LocalWorker(self.config(**settings), self.command(*options), watch_every_s=0.01)
        self._made.append(made)
        return made

    @property
    def starts(self) -> list[dict]:
        text = self._starts.read_text() if self._starts.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    async def end(self) -> None:
        for start in self.starts:
            if psutil.pid_exists(start["pid"]):
                os.kill(start["pid"], signal.SIGKILL)
        for start in self.starts:
            await self.until_gone(start["pid"])

    async def until_gone(self, pid: int) -> None:
        """Wait until a process has ended and, if it is ours, was collected."""
        with anyio.fail_after(30):
            while psutil.pid_exists(pid) and not is_orphan_that_ended(pid):
                for local in self._made:
                    await local.lost(Address(""))
                await anyio.sleep(0.005)


def is_orphan_that_ended(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.ppid() != os.getpid()
    except psutil.NoSuchProcess:
        return True
