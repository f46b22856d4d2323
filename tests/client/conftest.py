"""A client of the engine, and the scripted worker it talks to."""

from collections.abc import AsyncIterator

import pytest

from sie_mcp.client import EngineClient
from sie_mcp.connection import FixedEndpoint
from tests.scripted_worker import ScriptedWorker


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def worker() -> ScriptedWorker:
    return ScriptedWorker()


@pytest.fixture
async def url(worker: ScriptedWorker) -> AsyncIterator[str]:
    async with worker.running() as url:
        yield url


@pytest.fixture
async def client(worker: ScriptedWorker) -> AsyncIterator[EngineClient]:
    async with worker.running() as url:
        engine = EngineClient(FixedEndpoint(url), load_wait_s=0.3, timeout_s=10.0)
        yield engine
        await engine.aclose()
