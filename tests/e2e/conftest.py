"""Real processes: gateways over stdio and HTTP, and one toy worker for all tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from evals.ports import free_port

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 60.0
STDIO = [sys.executable, "-m", "sie_mcp", "stdio"]
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return an environment whose caches and sockets are the test's own."""
    own = {
        "SIE_MCP_CACHE_DIR": str(folder / "cache"),
        "SIE_MCP_RUNTIME_DIR": str(folder / "run"),
        "SIE_MCP_OFFLINE": "true",
        "SIE_MCP_WORKER_IDLE_EXIT_S": "20",
    }
    own |= {f"SIE_MCP_{name.upper()}": value for name, value in settings.items()}
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SIE_MCP_") and name != "PYTHONUNBUFFERED"
    }
    return others | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"} | own


@contextmanager
def serving(
    command: list[str], env: dict[str, str], log: Path, probe: str = "/readyz"
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a server on a free port until the block ends; enter once its probe says yes."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [*command, "--port", str(port)], env=env, stdout=out, stderr=out, cwd=ROOT
        )
    try:
        with httpx2.Client(base_url=url, timeout=START_LIMIT_S) as http:
            wait_until(http, probe, child, log)
        yield url, child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(20)


def wait_until(http: httpx2.Client, probe: str, child: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        assert child.poll() is None, log.read_text()
        with suppress(httpx2.TransportError):
            if http.get(probe).status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError(f"not ready within {START_LIMIT_S:.0f} s: {log.read_text()}")


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real worker with toys; a batch takes half a second."""
    folder = tmp_path_factory.mktemp("toys")
    command = [sys.executable, "-m", "tests.toy_worker", "--forward-s", "0.5"]
    with serving(command, environment(folder), folder / "worker.log") as (url, _):
        yield url


@contextmanager
def gateway(
    folder: Path, worker_url: str, **settings: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run `sie-mcp serve` in front of a worker; yield its URL and process."""
    env = environment(folder, worker_url=worker_url, **settings)
    log = folder / f"gateway-{time.monotonic_ns()}.log"
    # Its worker may be on the loop that waits here, and so not answer before.
    with serving([sys.executable, "-m", "sie_mcp", "serve"], env, log, "/healthz") as running:
        yield running


class Pipe:
    """One stdio server, spoken to line by line."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self.received: list[dict[str, Any]] = []

    async def write(self, line: bytes) -> None:
        await self._stdin.send(line + b"\n")

    async def send(self, **message: Any) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def call(self, number: int, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        await self.send(id=number, method="tools/call", params=params)

    async def answer(self, number: int) -> dict[str, Any]:
        """Read until the answer with this id comes; every line must be a message."""
        while True:
            line = await self._stdout.receive_until(b"\n", 10_000_000)
            message = json.loads(line)
            self.received.append(message)
            if message.get("id") == number:
                return message

    async def initialize(self) -> None:
        await self.send(id="init", method="initialize", params=INITIALIZE)
        await self.answer("init")  # type: ignore[arg-type]
        await self.send(method="notifications/initialized")

    async def end(self) -> bytes:
        """Close stdin; return what was still written on stdout once the process has ended."""
        await self._stdin.aclose()
        rest = bytes(self._stdout.buffer)
        try:
            while True:
                rest += await self._stdout.receive()
        except anyio.EndOfStream:
            await self.process.wait()
            return rest


@asynccontextmanager
async def stdio(
    env: dict[str, str], folder: Path, command: list[str] = STDIO
) -> AsyncIterator[Pipe]:
    """Start a stdio server; its stderr goes to `stderr.log` of the folder."""
    with (folder / "stderr.log").open("ab") as errors:
        async with await anyio.open_process(command, env=env, stderr=errors, cwd=ROOT) as process:
            try:
                with anyio.fail_after(START_LIMIT_S):
                    yield Pipe(process)
            finally:
                if process.returncode is None:
                    process.kill()


def worker_pids(folder: Path) -> set[int]:
    """Return the local workers that live over a folder, as their locks name them."""
    return {pid for pid in noted_pids(folder) if is_alive(pid)}


def noted_pids(folder: Path) -> set[int]:
    """Return the local workers that were the last over a folder, whether they live or not."""
    return {int(lock.read_text()) for lock in (folder / "run").glob("*.lock")}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a short path, as sockets need; no worker outlives the test."""
    made = tmp_path_factory.mktemp("e")
    yield made
    for pid in worker_pids(made):
        os.kill(pid, signal.SIGKILL)
