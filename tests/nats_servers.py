"""NATS servers of a test's own: the real program, with JetStream in a folder of the test."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from evals.ports import free_port

START_LIMIT_S = 20.0


class NatsServer:
    """One server at one port, through all its starts."""

    def __init__(self, folder: Path, *, monitored: bool = False) -> None:
        # The package puts it beside the interpreter, where PATH need not lead.
        places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        program = shutil.which("nats-server", path=places)
        if program is None:
            pytest.skip("nats-server is not installed")
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._port, monitor_port = free_port(), free_port()
        self._command = [program, "-a", "127.0.0.1", "-p", str(self._port)]
        self._command += ["-js", "-sd", str(folder / "streams")]
        self.monitor_url = f"http://127.0.0.1:{monitor_port}" if monitored else None
        if monitored:
            self._command += ["-m", str(monitor_port)]
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Where it is."""
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "server.log").open("ab") as log:
            self._child = subprocess.Popen(self._command, stdout=log, stderr=log)
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            assert self._child.poll() is None, "the server did not start"
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                threading.Event().wait(0.01)
            else:
                return
        raise AssertionError(f"no answer within {START_LIMIT_S:.0f} s")

    def kill(self) -> None:
        """End it at once."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(20)
            self._child = None
