"""A client of revision 2026-07-28 that knows tasks, speaking plain JSON over HTTP."""

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
NAMES = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}


class Modern:
    """Sends requests; with `knows_tasks` it declares the extension on each."""

    def __init__(
        self, http: httpx2.AsyncClient, *, knows_tasks: bool = True, version: str = VERSION
    ) -> None:
        self.http = http
        self.version = version
        self.capabilities = {"extensions": {TASKS: {}}} if knows_tasks else {}
        self._numbers = itertools.count(1)

    def post(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return what a POST of the request needs."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": self.version,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        }
        name = params.get(NAMES.get(method, "taskId"))
        named = {"Mcp-Name": name} if name else {}
        return {
            "json": {
                "jsonrpc": "2.0",
                "id": next(self._numbers),
                "method": method,
                "params": {"_meta": meta, **params},
            },
            "headers": {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": self.version,
                "Mcp-Method": method,
                **named,
                **(headers or {}),
            },
        }

    async def ask(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the whole answer."""
        answer = await self.http.post("/mcp", **self.post(method, params, headers))
        found: dict[str, Any] = answer.json()
        return found

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request that should succeed."""
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool."""
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def task(self, task_id: str) -> dict[str, Any]:
        """Ask after a task."""
        return await self.result("tasks/get", taskId=task_id)

    async def ended(self, task_id: str) -> dict[str, Any]:
        """Ask after a task until it has ended."""
        return await self.until(task_id, "status", "completed", "failed", "cancelled")

    async def until(self, task_id: str, field: str, *values: str) -> dict[str, Any]:
        """Ask after a task until a field of it has one of some values, half a minute at most."""
        with anyio.fail_after(30):
            while True:
                task = await self.task(task_id)
                if task.get(field) in values:
                    return task
                await anyio.sleep(0.01)


@asynccontextmanager
async def modern(url: str, *, knows_tasks: bool = True) -> AsyncIterator[Modern]:
    """A client with its own connections."""
    async with httpx2.AsyncClient(base_url=url, timeout=30) as http:
        yield Modern(http, knows_tasks=knows_tasks)
