"""From process start to an answered tools/list over stdio, beside a bare SDK server.

What waits for a model too is measured by first_embedding.py.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

RUNS = 7
FLOOR = """
import anyio
from mcp.server import MCPServer
anyio.run(MCPServer("floor").run_stdio_async)
"""
MESSAGES = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
]


@dataclass(frozen=True, slots=True)
class Startup:
    """Median seconds from process start to the answer of tools/list."""

    ours_s: float
    floor_s: float

    @property
    def ratio(self) -> float:
        """Ours over the bare SDK server."""
        return self.ours_s / self.floor_s


def measure() -> Startup:
    """Start both servers in turn, several times."""
    ours: list[float] = []
    floor: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            floor.append(_time_once([sys.executable, "-c", FLOOR], folder))
            ours.append(_time_once([sys.executable, "-m", "sie_mcp", "stdio"], folder))
    return Startup(statistics.median(ours), statistics.median(floor))


def _time_once(command: list[str], folder: str) -> float:
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in MESSAGES:
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if json.loads(line).get("id") == 2:
                break
        elapsed = time.perf_counter() - started
        process.stdin.close()
        process.wait(timeout=30)
    return elapsed
