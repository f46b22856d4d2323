"""Real processes: gateways over stdio and HTTP, toy workers on a socket of their own."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 60.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def environment(tmp_path: Path, **settings: str) -> dict[str, str]:
    """Return an environment whose caches and sockets are the test's own."""
    own = {
        "SIE_MCP_CACHE_DIR": str(tmp_path / "cache"),
        "SIE_MCP_RUNTIME_DIR": str(tmp_path / "run"),
        "SIE_MCP_OFFLINE": "true",
        "SIE_MCP_WORKER_IDLE_EXIT_S": "20",
    }
    own |= {f"SIE_MCP_{name.upper()}": value for name, value in settings.items()}
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"} | own


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def process(
    command: list[str], env: dict[str, str], url: str, log: Path
) -> Iterator[subprocess.Popen]:
    """Run a server until the block ends; enter once it answers."""
    with log.open("wb") as out:
        child = subprocess.Popen(command, env=env, stdout=out, stderr=out, cwd=ROOT)
    try:
        transport = httpx2.HTTPTransport(retries=200)
        with httpx2.Client(transport=transport, timeout=START_LIMIT_S) as client:
            for _ in range(600):
                assert child.poll() is None, log.read_text()
                try:
                    if client.get(f"{url}/readyz").status_code == 200:
                        break
                except httpx2.TransportError:
                    continue
        yield child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()


@contextmanager
def toy_worker(tmp_path: Path, *options: str) -> Iterator[str]:
    """Run the real worker with toy models; yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.toy_worker", "--port", str(port), *options]
    with process(command, environment(tmp_path), url, tmp_path / f"worker-{port}.log"):
        yield url


@contextmanager
def gateway(tmp_path: Path, worker_url: str, **settings: str) -> Iterator[str]:
    """Run `sie-mcp serve` in front of a worker; yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "sie_mcp", "serve", "--port", str(port)]
    env = environment(tmp_path, worker_url=worker_url, **settings)
    with process(command, env, url, tmp_path / f"gateway-{port}.log"):
        yield url
