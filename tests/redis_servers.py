"""Redis servers of a test's own: the real program, where it is installed, and one in process."""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from fakeredis import TcpFakeServer

KINDS = ("real", "in process")
START_LIMIT_S = 20.0


@contextmanager
def redis_server(kind: str, folder: Path) -> Iterator[str]:
    """Run a server until the block ends; yield its URI."""
    with _real(folder) if kind == "real" else _in_process() as uri:
        yield uri


@contextmanager
def _real(folder: Path) -> Iterator[str]:
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    socket = folder / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", ""]
    with (folder / "redis.log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _wait_until_ready(f"unix://{socket}", child)
        yield f"unix://{socket}"
    finally:
        child.terminate()
        child.wait(20)


def _wait_until_ready(uri: str, child: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + START_LIMIT_S
    with redis.Redis.from_url(uri) as client:
        while time.monotonic() < limit:
            assert child.poll() is None, "the server did not start"
            try:
                client.ping()
            except redis.ConnectionError:
                threading.Event().wait(0.01)
            else:
                return
    raise AssertionError(f"no answer within {START_LIMIT_S:.0f} s")


@contextmanager
def _in_process() -> Iterator[str]:
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
