"""A gateway in front of several workers, each a real engine with toy models on a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import Connections
from sie_mcp.engine.server import Activity
from sie_mcp.gateway.pool import watch
from sie_mcp.gateway.pool.plan import Plan, PoolPlan
from sie_mcp.gateway.pool.pools import Pools
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

MODEL_BYTES = 9_000_000
# A bound, not what it takes: the machine may be busy with other things.
WAIT_S = 60.0


@pytest.fixture
def anyio_backend() -> str:
    """The engine lives on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a worker that is there may be slow to say so."""
    monkeypatch.setattr(watch, "LOOK_TIMEOUT_S", WAIT_S)


@dataclass
class ClusterWorker:
    """One worker of a cluster."""

    url: str
    loader: ToyLoader
    activity: Activity
    stack: AsyncExitStack

    async def stop(self) -> None:
        """End it: connections are cut, the port is closed."""
        await self.stack.aclose()


@dataclass
class Cluster:
    """Workers and what chooses among them."""

    workers: list[ClusterWorker]
    pools: Pools
    client: EngineClient

    @property
    def num_loads(self) -> int:
        """Loads of all workers since the start."""
        return sum(len(worker.loader.loads) for worker in self.workers)


@asynccontextmanager
async def cluster(
    tmp_path, count: int, *, models_each: int = 4, slots: int = 32, hold_s: float = WAIT_S
) -> AsyncIterator[Cluster]:
    """Run so many workers, each with memory for so many models.

    With `slots` above the number of clients no model is hot enough to want a second copy, however
    slow the machine is.
    """
    async with AsyncExitStack() as stack:
        workers = [await _worker(tmp_path / str(n), models_each) for n in range(count)]
        for one in workers:
            stack.push_async_callback(one.stop)
        plan = Plan(pools={"default": PoolPlan(workers=[one.url for one in workers], slots=slots)})
        pools = Pools(plan, Connections(timeout_s=WAIT_S), hold_s=hold_s)
        client = EngineClient(pools, load_wait_s=WAIT_S, timeout_s=WAIT_S)
        stack.push_async_callback(client.aclose)
        await stack.enter_async_context(pools.running())
        known = pools.pools["default"].watch.known
        await until(lambda: sum(one.is_ready for one in known.values()) == count)
        yield Cluster(workers, pools, client)


async def _worker(folder, models_each: int) -> ClusterWorker:
    stack = AsyncExitStack()
    loader = ToyLoader(size_bytes=MODEL_BYTES)
    # A quarter is kept for the workspace of a batch.
    budget = f"{models_each * MODEL_BYTES * 4 // 3 + 1}"
    config = Config(cache_dir=folder, memory_budget=budget, allow_model_control=True)
    worker = make_worker(config, loader)
    url = await stack.enter_async_context(serving(worker.app))
    return ClusterWorker(url, loader, worker.activity, stack)


async def until(is_so: Callable[[], bool], limit_s: float = WAIT_S) -> None:
    """Wait for something, not for ever."""
    with anyio.fail_after(limit_s):
        while not is_so():
            await anyio.sleep(0.01)
