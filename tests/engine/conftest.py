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
from sie_mcp.engine.loader import Loader
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.server import Activity, WorkerApp
from sie_mcp.engine.swaps import Swaps
from tests.toy_worker import CATALOGUE
from tests.toys import ToyLoader

CPU = torch.device("cpu")
PAGE_BYTES = 1024


@dataclass
class Rig:
    """Everything a test may look at."""

    engine: Engine
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
    *,
    device: torch.device = CPU,
    budget: int = 1_000,
    reserved: int = 0,
    host_budget: int = 0,
    page_bytes: int = PAGE_BYTES,
    retries_nonfinite: bool = True,
    **scheduling: int,
) -> AsyncIterator[Rig]:
    """Run an engine for the length of the block."""
    loader = loader or ToyLoader()
    ledger = Ledger(budget, reserved)
    swaps = make_swaps(device, host_budget, page_bytes)
    residency = Residency(
        loader,
        ledger,
        swaps,
        empty_caches=lambda: empty_caches(device),
        after_eviction=lambda limit_bytes: trim_caches(device, limit_bytes),
    )
    settings = {
        "max_batch_tokens": 1_000,
        "max_batch_sequences": 64,
        "max_queue_tokens": 1_000_000,
        "max_age_s": 10.0,
    }
    scheduler = Scheduler(**(settings | scheduling))
    thread = DeviceThread(
        device,
        scheduler,
        residency.evict_idle,
        retries_nonfinite=retries_nonfinite,
    )
    registry = Registry(CATALOGUE, tmp_path, FetchOptions(offline=True))
    engine = Engine(registry, residency, thread, Limits(200, 10_000, 30.0), 4)
    thread.start()
    try:
        yield Rig(engine, residency, thread, ledger, loader, swaps.ledger, scheduler)
    finally:
        if isinstance(loader, ToyLoader):
            loader.gate.set()
            if loader.forward_gate is not None:
                loader.forward_gate.set()
        await engine.aclose()


@asynccontextmanager
async def http(
    rig: Rig, max_body_bytes: int = 100_000, activity: Activity | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the worker's routes without a socket."""
    activity = activity or Activity()
    app = WorkerApp(rig.engine, rig.device, max_body_bytes=max_body_bytes, activity=activity)
    transport = httpx2.ASGITransport(app=app.starlette())
    async with httpx2.AsyncClient(transport=transport, base_url="http://worker") as client:
        yield client


def out_of_memory_steps(name: str) -> float:
    """Return how often a step of the ladder was taken in this process."""
    labels = {"step": name}
    return metrics.REGISTRY.get_sample_value("sie_out_of_memory_total", labels) or 0.0


async def until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
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
