"""A real worker in a process of its own, and what it takes: memory, descriptors, threads.

Knows processes and the worker's probes; knows nothing of traffic.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil

from evals.ports import free_port
from sie_mcp import wire
from sie_mcp.codec import JSON, decode_body

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "sie_mcp", "worker")
START_LIMIT_S = 120.0
STOP_LIMIT_S = 30.0
BUDGET_TRIES = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """What a worker took at one moment; `device_bytes` of the whole device, None without one."""

    at_s: float
    rss_bytes: int
    num_fds: int
    num_threads: int
    device_bytes: int | None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that answers."""

    url: str
    process: psutil.Process
    log: Path

    def sample(self, *, device: bool = False) -> Sample:
        """Look at the process; `device` asks the driver too."""
        with self.process.oneshot():
            return Sample(
                time.monotonic(),
                self.process.memory_info().rss,
                self.process.num_fds(),
                self.process.num_threads(),
                device_bytes() if device else None,
            )

    async def models(self) -> wire.ModelList:
        """Return its own listing, memory included."""
        return wire.ModelList.model_validate(decode_body((await self._get("/v1/models")), JSON))

    async def metric(self, name: str) -> float:
        """Return the sum of a metric's samples; 0 where it has none."""
        lines = (await self._get("/metrics")).decode().splitlines()
        wanted = [line for line in lines if line.partition("{")[0].partition(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in wanted)

    async def _get(self, path: str) -> bytes:
        async with httpx2.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as http:
            response = await http.get(path, headers={"Accept": JSON})
            response.raise_for_status()
            return response.content


@asynccontextmanager
async def working(
    folder: Path,
    settings: Mapping[str, object],
    *,
    command: Sequence[str] = COMMAND,
    probe: str = "/readyz",
) -> AsyncIterator[Worker]:
    """Run a worker with these settings until the block ends; or another server, by its probe."""
    port, log = free_port(), folder / f"worker-{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [*command, "--port", str(port)],
            env=environment(folder, settings),
            stdout=out,
            stderr=out,
            cwd=folder,
        )
    worker = Worker(f"http://127.0.0.1:{port}", psutil.Process(child.pid), log)
    try:
        await _until_ready(worker, child, probe)
        yield worker
    finally:
        child.terminate()
        try:
            child.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(STOP_LIMIT_S)


@asynccontextmanager
async def working_with(
    usable_bytes: int,
    folder: Path,
    settings: Mapping[str, object],
    *,
    command: Sequence[str] = COMMAND,
) -> AsyncIterator[Worker]:
    """Run a worker whose room for models is this much, whatever it reserves beside them."""
    # Right where a quarter is reserved.
    budget = usable_bytes + usable_bytes // 3
    for tries_left in reversed(range(BUDGET_TRIES)):
        own = {**settings, "memory_budget": str(budget)}
        async with working(folder, own, command=command) as worker:
            memory = (await worker.models()).memory
            missing = usable_bytes - (memory["budget_bytes"] - memory["reserved_bytes"])
            if abs(missing) <= usable_bytes // 100 or not tries_left:
                yield worker
                return
        budget += missing


def environment(folder: Path, settings: Mapping[str, object]) -> dict[str, str]:
    """Return the environment of a worker whose caches and sockets are this folder's."""
    own: dict[str, object] = {
        "allow_local_models": True,
        "cache_dir": folder / "cache",
        "runtime_dir": folder / "run",
        "offline": "true",
    }
    named = {f"SIE_MCP_{name.upper()}": str(value) for name, value in {**own, **settings}.items()}
    others = {key: value for key, value in os.environ.items() if not key.startswith("SIE_MCP_")}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return others | {"PYTHONPATH": os.pathsep.join(paths)} | named


def device_bytes() -> int | None:
    """Return the memory taken on the first device by everybody, as its driver counts."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return int(found.stdout.strip()) * 1024**2


async def watch(
    worker: Worker, samples: list[Sample], *, every_s: float, device: bool = False
) -> None:
    """Sample until cancelled."""
    while True:
        samples.append(await asyncio.to_thread(worker.sample, device=device))
        await asyncio.sleep(every_s)


async def _until_ready(worker: Worker, child: subprocess.Popen[bytes], probe: str) -> None:
    limit_s = time.monotonic() + START_LIMIT_S
    async with httpx2.AsyncClient(base_url=worker.url, timeout=5, trust_env=False) as http:
        while time.monotonic() < limit_s and child.poll() is None:
            try:
                if (await http.get(probe)).status_code == 200:
                    return
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
    raise RuntimeError(f"the worker did not start: {worker.log.read_text()[-2000:]}")
