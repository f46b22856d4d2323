"""A real worker in this process whose toy model waits at a gate, and servers of ours before it."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

from sie_mcp import metrics
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import FixedEndpoint
from sie_mcp.gateway.app import build_mcp_app
from sie_mcp.gateway.server import build_server
from sie_mcp.gateway.session_names import SessionNames
from tests.scripted_worker import until
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

MAX_BATCH = 16
NUM_DOCUMENTS = 200
CALL = {"query": "q", "documents": [f"text {n}" for n in range(NUM_DOCUMENTS)], "model": "toy"}


@dataclass
class Toys:
    """The worker's URL, and what it has queued and dropped."""

    url: str
    gate: threading.Event
    dropped_before: float
    expired_before: float

    @property
    def num_dropped(self) -> float:
        """Sequences that were dropped before they ran."""
        return _value("sie_cancelled_total") - self.dropped_before

    @property
    def num_expired(self) -> float:
        """Sequences whose deadline passed before they ran."""
        return _value("sie_expired_total") - self.expired_before

    @property
    def num_batches(self) -> float:
        """Batches that have run in this process."""
        samples = metrics.BATCH_TOKENS.collect()[0].samples
        return sum(one.value for one in samples if one.name.endswith("_count"))

    async def until_queued(self) -> None:
        """Wait until all documents of a call wait behind a first batch."""
        await until(self.is_queued)

    def is_queued(self) -> bool:
        """Whether they do."""
        return _queued() >= NUM_DOCUMENTS - 2 * MAX_BATCH

    async def until_dropped(self) -> None:
        """Wait until none waits any more, while the first batch still runs."""
        await until(lambda: self.num_dropped >= NUM_DOCUMENTS - 2 * MAX_BATCH)
        assert _queued() == 0
        assert not self.gate.is_set()


@asynccontextmanager
async def toys(folder: Path) -> AsyncIterator[Toys]:
    """Run the worker; its gate is closed."""
    gate = threading.Event()
    loader = ToyLoader(forward_gate=gate)
    worker = make_worker(Config(cache_dir=folder, max_batch_sequences=MAX_BATCH), loader)
    try:
        async with serving(worker.app) as url:
            yield Toys(url, gate, _value("sie_cancelled_total"), _value("sie_expired_total"))
            gate.set()
    finally:
        gate.set()


@asynccontextmanager
async def front(worker_url: str, mode: str, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a server of ours and yield a client of it.

    Args:
        mode: "served", as `sie-mcp serve` does; or another mode of the SDK: "json" answers without
            streams, "stateful" has sessions.
    """
    config = Config(worker_url=worker_url, **settings)
    engine = EngineClient(FixedEndpoint(worker_url), load_wait_s=10)
    server = build_server(engine, config, files_allowed=False)
    if mode == "served":
        app = build_mcp_app(server, config)
    else:
        app = SessionNames(
            server.streamable_http_app(
                stateless_http=mode != "stateful", json_response=mode == "json"
            )
        )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            yield
        await engine.aclose()

    whole = Starlette(routes=[Mount("/", app=app)], lifespan=lifespan)
    async with serving(whole) as url, httpx2.AsyncClient(base_url=url, timeout=30) as http:
        yield http


def _queued() -> float:
    return sum(
        sample.value for metric in metrics.QUEUE_SEQUENCES.collect() for sample in metric.samples
    )


def _value(name: str) -> float:
    return metrics.REGISTRY.get_sample_value(name) or 0.0
