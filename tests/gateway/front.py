"""A gateway on a real socket in front of a scripted worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from sie_mcp.config import Config
from sie_mcp.gateway.app import build_app
from tests.scripted_worker import ScriptedWorker
from tests.servers import serving

CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}
ITEMS = {"items": [{"text": "0.5"}]}


@dataclass
class Gateway:
    """A gateway, its worker, and a plain HTTP client of it."""

    url: str
    worker: ScriptedWorker
    http: httpx2.AsyncClient


@asynccontextmanager
async def gateway(*, files_allowed: bool = False, **settings: object) -> AsyncIterator[Gateway]:
    worker = ScriptedWorker()
    async with worker.running() as worker_url:
        own = {"worker_url": worker_url, "load_wait_s": 0.2}
        app = build_app(Config(**(own | settings)), files_allowed=files_allowed)
        async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=10) as http:
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
