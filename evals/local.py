"""A client of the shared local worker, for evaluations: the same door that tools use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sie_mcp.client import EngineClient
from sie_mcp.config import load_config
from sie_mcp.gateway.supervisor import LocalWorker


@asynccontextmanager
async def local_client() -> AsyncIterator[EngineClient]:
    """Start or join the local worker; long waits, as evaluations load models from disk."""
    config = load_config()
    client = EngineClient(LocalWorker(config), load_wait_s=120.0, timeout_s=600.0)
    try:
        yield client
    finally:
        await client.aclose()
