"""A broker, gateways and workers of a test's own: real ones, workers in process or as programs."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2

from evals.ports import free_port
from sie_mcp.broker.broker import Bounds
from sie_mcp.broker.nats_broker import NatsBroker
from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.engine.serving import Worker
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.endpoint import choose_endpoint, kept_up, make_client
from sie_mcp.gateway.queued.endpoint import QueueEndpoint
from tests.cluster.conftest import WAIT_S, until
from tests.nats_servers import NatsServer
from tests.servers import serving
from tests.toy_worker import make_worker
from tests.toys import ToyLoader

# After it what a killed worker had in hand comes back, and what one had that stood still for long.
ACK_WAIT_S = 5.0
READY_S = WAIT_S
# A program reads torch first.
PROGRAM_S = 60.0
NO_BODY = {"items": []}


@dataclass
class InProcess:
    """A worker on the loop of the test."""

    url: str
    worker: Worker
    loader: ToyLoader


@dataclass
class Program:
    """A worker as a program of its own, which can be killed; at the same port through its lives."""

    port: int
    folder: Path
    uri: str
    child: subprocess.Popen[bytes] | None = None
    options: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        own = {
            "SIE_MCP_QUEUE_URI": self.uri,
            "SIE_MCP_CACHE_DIR": str(self.folder),
            "SIE_MCP_ALLOW_MODEL_CONTROL": "true",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "tests.toy_worker", "--port", str(self.port)]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "worker.log").open("ab") as log:
            self.child = subprocess.Popen(
                [*command, *self.options], env=os.environ | own, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait(20)
            self.child = None


@dataclass
class Queue:
    """All of it."""

    server: NatsServer
    folder: Path
    stack: AsyncExitStack
    workers: list[InProcess] = field(default_factory=list)

    async def start_broker(self) -> None:
        await anyio.to_thread.run_sync(self.server.start)

    async def add_worker(self, **settings: object) -> InProcess:
        """Start a worker that pulls."""
        config = Config(
            cache_dir=self.folder,
            queue_uri=self.server.uri,
            allow_model_control=True,
            **settings,  # type: ignore[arg-type]
        )
        loader = ToyLoader()
        worker = make_worker(config, loader)
        url = await self.stack.enter_async_context(serving(worker.app))
        assert worker.pulling is not None
        await self.stack.enter_async_context(running(worker.pulling.run))
        self.workers.append(InProcess(url, worker, loader))
        return self.workers[-1]

    def config(self, *urls: str, **settings: object) -> Config:
        """Return a gateway's settings."""
        values: dict[str, object] = {
            "cache_dir": self.folder,
            "queue_uri": self.server.uri,
            "queue_for": "all",
            "queue_ack_wait_s": ACK_WAIT_S,
            "workers": urls or tuple(one.url for one in self.workers),
        }
        return Config(**values | settings)  # type: ignore[arg-type]

    @asynccontextmanager
    async def gateway(
        self, *urls: str, **settings: object
    ) -> AsyncIterator[tuple[QueueEndpoint, EngineClient]]:
        """Run what a gateway has of it, until it knows the broker and as many workers."""
        config = self.config(*urls, **settings)
        endpoint = choose_endpoint(config)
        assert isinstance(endpoint, QueueEndpoint)
        client = make_client(endpoint, config)
        async with kept_up(endpoint):
            await ready(endpoint, len(config.workers))
            try:
                yield endpoint, client
            finally:
                await client.aclose()


@asynccontextmanager
async def queue(tmp_path: Path, *, count: int = 0) -> AsyncIterator[Queue]:
    """Run a broker, and so many workers in process."""
    server = NatsServer(tmp_path / "nats")
    try:
        async with AsyncExitStack() as stack:
            found = Queue(server, tmp_path, stack)
            await found.start_broker()
            for _ in range(count):
                await found.add_worker()
            yield found
    finally:
        server.kill()


@asynccontextmanager
async def running(work) -> AsyncIterator[None]:
    """Run something beside the block."""
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def app_client(
    found: Queue, *urls: str, **settings: object
) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a whole gateway, and talk to it over HTTP."""
    app = build_app(found.config(*urls, **settings), files_allowed=False)
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=READY_S) as http:
        headers = {"X-SIE-Transport": "queue", "X-SIE-Timeout": "0.001"}
        # Refused for want of a broker until there is one, then for want of time.
        with anyio.fail_after(READY_S):
            while True:
                answer = await http.post("/v1/encode/ready", json=NO_BODY, headers=headers)
                if answer.headers.get("X-SIE-Error-Code") != "BROKER_UNAVAILABLE":
                    break
                await anyio.sleep(0.02)
        yield http


@asynccontextmanager
async def program(found: Queue, *options: str) -> AsyncIterator[Program]:
    """Run a worker as a program of its own, until it is ready."""
    port = free_port()
    worker = Program(port, found.folder / f"worker-{port}", found.server.uri, options=options)
    worker.start()
    try:
        async with httpx2.AsyncClient(base_url=worker.url, timeout=1.0) as http:
            with anyio.fail_after(PROGRAM_S):
                while not await _is_ready(http):
                    await anyio.sleep(0.05)
        yield worker
    finally:
        worker.kill()


async def _is_ready(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).is_success
    except httpx2.RequestError:
        return False


async def ready(endpoint: QueueEndpoint, count: int) -> None:
    """Wait until a gateway has prepared the broker and knows its workers."""
    known = endpoint.pools["default"].watch.known
    await until(lambda: bool(endpoint.sender._inbox))
    await until(lambda: sum(one.is_ready for one in known.values()) >= count)


async def result_of(http: httpx2.AsyncClient, location: str) -> httpx2.Response:
    """Ask for a job's result until it is there."""
    with anyio.fail_after(READY_S):
        while (answer := await http.get(location)).status_code == 202:
            await anyio.sleep(0.02)
    return answer


@asynccontextmanager
async def broker(found: Queue, **bounds: float) -> AsyncIterator[NatsBroker]:
    """Connect to the broker as an onlooker."""
    onlooker = NatsBroker(found.server.uri, "test", Bounds(**bounds))  # type: ignore[arg-type]
    async with onlooker.running():
        await until(lambda: onlooker.is_up)
        yield onlooker
