"""An MCP server in memory over a scripted worker, and a client of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp import Client

from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.connection import ANYTHING, Address, FixedEndpoint, OneWorker, Want
from sie_mcp.gateway.server import build_server
from sie_mcp.tools.registry import TOOLSETS
from tests.scripted_worker import ScriptedWorker

CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}
TOOLS = [
    "rerank",
    "filter_context",
    "search_files",
    "classify_taxonomy",
    "classify",
    "extract_entities",
    "extract_relations",
    "extract_structured",
    "detect_pii",
    "redact",
    "embed",
    "list_models",
]

# What a server offers that is not told otherwise.
STANDARD = list(TOOLSETS["standard"])


@asynccontextmanager
async def session(worker: ScriptedWorker, mode: str, **settings: object) -> AsyncIterator[Client]:
    """A client of a server whose tools talk to the worker."""
    config = Config(load_wait_s=0.2, **settings)
    async with worker.running() as url:
        engine = EngineClient(FixedEndpoint(url), load_wait_s=config.load_wait_s)
        server = build_server(engine, config, files_allowed=True)
        try:
            async with Client(server, mode=mode) as client:
                yield client
        finally:
            await engine.aclose()


@asynccontextmanager
async def broken(mode: str, error: Exception) -> AsyncIterator[Client]:
    """A client of a server whose every way to a worker ends in an error."""

    class Nowhere(OneWorker):
        async def address(self, want: Want = ANYTHING) -> Address:
            raise error

        async def lost(self, address: Address, want: Want = ANYTHING) -> None:
            raise AssertionError("nothing was found that could be lost")

    config = Config()
    server = build_server(EngineClient(Nowhere()), config, files_allowed=True)
    async with Client(server, mode=mode) as client:
        yield client


def text_of(result) -> str:
    (block,) = result.content
    return block.text


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool wrongly; return what the model reads."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)
