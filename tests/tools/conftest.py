"""The tools behind a real MCP server and a real client in memory, over a fake worker."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult

from sie_mcp.config import Config
from sie_mcp.errors import SieError
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.registry import build_tools
from tests.tools.fake_worker import FakeWorker


class PlainServer(MCPServer):
    """A server that shows our errors as they are; the gateway's does more."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, SieError):
                raise ToolError(str(error.__cause__)) from error
            raise


Report = tuple[float, float | None, str | None]


@dataclass
class Toolbox:
    """Calls tools as an agent does."""

    worker: FakeWorker
    folder: Path
    cache: Path
    files_allowed: bool = True
    more_folders: tuple[Path, ...] = ()
    mode: str = "auto"
    settings: dict[str, Any] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that should succeed; check that both forms of the answer are equal."""
        result = await self._call(name, arguments)
        assert not result.is_error, result.content
        assert len(result.content) == 1
        assert json.loads(result.content[0].text) == result.structured_content
        assert result.structured_content is not None
        return result.structured_content

    async def error(self, name: str, **arguments: Any) -> str:
        """Call a tool that should fail; return what the agent reads."""
        result = await self._call(name, arguments)
        assert result.is_error, result.content
        return str(result.content[0].text)

    async def _call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        async def report(done: float, total: float | None, message: str | None) -> None:
            self.reports.append((done, total, message))

        async with self.client() as client:
            return await client.call_tool(name, arguments, progress_callback=report)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Open a client of a new server."""
        config = Config(
            allow=(self.folder, *self.more_folders), cache_dir=self.cache, **self.settings
        )
        context = ToolContext(self.worker, config, self.files_allowed)  # type: ignore[arg-type]

        @asynccontextmanager
        async def lifespan(_: MCPServer) -> AsyncIterator[ToolContext]:
            yield context

        server = PlainServer("test", tools=build_tools(), lifespan=lifespan)
        async with Client(server, mode=self.mode) as client:
            yield client

    def write(self, name: str, content: str | bytes) -> str:
        """Put a file into the allowed folder; return its name."""
        data = content.encode() if isinstance(content, str) else content
        (self.folder / name).write_bytes(data)
        return name


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture
def toolbox(worker: FakeWorker, tmp_path: Path) -> Toolbox:
    folder = tmp_path / "allowed"
    folder.mkdir()
    return Toolbox(worker, folder, tmp_path / "cache")
