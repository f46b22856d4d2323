"""A gateway on a real socket in front of a scripted worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import pytest

from sie_mcp.config import Config
from sie_mcp.gateway import readiness
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.console import looks
from tests.scripted_worker import ScriptedWorker
from tests.servers import serving

CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}
ITEMS = {"items": [{"text": "0.5"}]}
PATIENCE_S = 30.0


@dataclass
class Gateway:
    """A gateway, its worker, and a plain HTTP client of it."""

    url: str
    worker: ScriptedWorker
    http: httpx2.AsyncClient


@asynccontextmanager
async def gateway(*, files_allowed: bool = False, **settings: object) -> AsyncIterator[Gateway]:
    worker = ScriptedWorker()
    with pytest.MonkeyPatch.context() as patch:
        # On a busy machine a worker that is there may take longer than a probe would wait.
        patch.setattr(readiness, "FIRST_LOOK_S", PATIENCE_S)
        patch.setattr(readiness, "LOOK_TIMEOUT_S", PATIENCE_S)
        patch.setattr(looks, "LOOK_TIMEOUT_S", PATIENCE_S)
        async with before(worker, files_allowed, settings) as made:
            yield made


@asynccontextmanager
async def before(
    worker: ScriptedWorker, files_allowed: bool, settings: dict[str, object]
) -> AsyncIterator[Gateway]:
    """Serve a gateway before a worker."""
    async with worker.running() as worker_url:
        own = {"worker_url": worker_url, "load_wait_s": 0.2}
        app = build_app(Config(**(own | settings)), files_allowed=files_allowed)
        async with (
            serving(app) as url,
            httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S) as http,
        ):
            yield Gateway(url, worker, http)


def raw_call(version: str, query: str = "q") -> dict:
    """Return what `post` needs to call rerank without an MCP client."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "rerank", "arguments": CALL | {"query": query}, "_meta": meta}
    return {
        "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        "headers": {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": version,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "rerank",
        },
    }
