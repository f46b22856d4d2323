"""The engine's real parts around toy models, on one event loop; and its HTTP without a socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import pytest
import torch

from sie_mcp import metrics
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.engine import Engine, Limits
from sie_mcp.engine.hardware import empty_caches, trim_caches
from sie_mcp.engine.host_memory import HostLedger
from sie_mcp.engine.host_pages import HostPages
from sie_mcp.engine.lane import Lane, Lanes
from sie_mcp.engine.loader import Loader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.server import Activity, WorkerApp
from sie_mcp.engine.swaps import Swaps
from tests.toy_worker import CATALOGUE
from tests.toys import ToyLoader, ToyRegistry

CPU = torch.device("cpu")
PAGE_BYTES = 1024


@dataclass
class Rig:
    """Everything a test may look at; parts are those of the first lane."""

    engine: Engine
    lanes: Lanes
    residency: Residency
    device: DeviceThread
    ledger: Ledger
    loader: Loader
    host: HostLedger
    scheduler: Scheduler


def make_swaps(
    device: torch.device = CPU, host_budget: int = 0, page_bytes: int = PAGE_BYTES
) -> Swaps:
    """Return a host tier; by default one that holds nothing."""
    pages = HostPages(is_pinned=device.type == "cuda", page_bytes=page_bytes)
    return Swaps(device, HostLedger(host_budget, page_bytes), pages)


@asynccontextmanager
async def running(
    tmp_path,
    loader: Loader | None = None,
    *others: Loader,
    device: torch.device = CPU,
    budget: int = 1_000,
    reserved: int = 0,
    host_budget: int = 0,
    page_bytes: int = PAGE_BYTES,
    retries_nonfinite: bool = True,
    **scheduling: int,
) -> AsyncIterator[Rig]:
    """Run an engine for the length of the block, with one more lane for each other loader."""
    loaders = [loader or ToyLoader(), *others]
    settings = {
        "max_batch_tokens": 1_000,
        "max_batch_sequences": 64,
        "max_queue_tokens": 1_000_000,
        "max_age_s": 10.0,
    }
    schedulers = [Scheduler(**(settings | scheduling)) for _ in loaders]
    lanes = []
    for number, (one, scheduler) in enumerate(zip(loaders, schedulers, strict=True)):
        ledger = Ledger(budget, reserved)
        residency = Residency(
            one,
            ledger,
            make_swaps(device, host_budget, page_bytes),
            empty_caches=lambda: empty_caches(device),
            after_eviction=lambda limit_bytes: trim_caches(device, limit_bytes),
        )
        thread = DeviceThread(
            device, scheduler, residency.evict_idle, retries_nonfinite=retries_nonfinite
        )
        lanes.append(Lane(f"{device}#{number}", ledger, residency, thread))
    registry = ToyRegistry(CATALOGUE, tmp_path, FetchOptions(offline=True))
    all_lanes = Lanes(lanes)
    engine = Engine(registry, all_lanes, Limits(200, 10_000, 30.0), 4)
    first = lanes[0]
    host = first.residency.swaps.ledger
    parts = (first.residency, first.thread, first.ledger, loaders[0], host, schedulers[0])
    for lane in lanes:
        lane.thread.start()
    try:
        yield Rig(engine, all_lanes, *parts)
    finally:
        for one in loaders:
            if isinstance(one, ToyLoader):
                one.gate.set()
                if one.forward_gate is not None:
                    one.forward_gate.set()
        await engine.aclose()


@asynccontextmanager
async def http(
    rig: Rig,
    max_body_bytes: int = 100_000,
    activity: Activity | None = None,
    *,
    allows_control: bool = True,
) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the worker's routes without a socket."""
    app = WorkerApp(
        rig.engine,
        rig.lanes,
        max_body_bytes=max_body_bytes,
        activity=activity or Activity(),
        allows_control=allows_control,
    )
    transport = httpx2.ASGITransport(app=app.starlette())
    async with httpx2.AsyncClient(transport=transport, base_url="http://worker") as client:
        yield client


def out_of_memory_steps(name: str) -> float:
    """Return how often a step of the ladder was taken in this process."""
    labels = {"step": name}
    return metrics.REGISTRY.get_sample_value("sie_out_of_memory_total", labels) or 0.0


async def until(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    """Yield to the loop until the condition holds."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.005)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run one scenario with a bound on its time."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


@pytest.fixture
def toy_loader() -> ToyLoader:
    return ToyLoader()
