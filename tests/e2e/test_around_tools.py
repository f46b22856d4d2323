"""Resources, prompts, completions and toolsets of real processes, over stdio and HTTP."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import PromptReference

from tests.e2e.conftest import ROOT, environment, gateway
from tests.scripted_worker import ScriptedWorker

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]

CALL = {"query": "q", "documents": [str(n) for n in range(80)], "top_k": 80, "model": "toy"}
SMALL = {"max_result_tokens": "200"}


@asynccontextmanager
async def over_stdio(
    folder: Path, mode: str, url: str, *flags: str, **settings: str
) -> AsyncIterator[Client]:
    """A client of a process that it started itself."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "sie_mcp", "stdio", "--allow", str(folder), *flags],
        env=environment(folder, worker_url=url, **settings),
        cwd=ROOT,
    )
    with (folder / "stderr.log").open("a") as errors, anyio.fail_after(60):
        async with Client(stdio_client(server, errlog=errors), mode=mode) as client:
            yield client


async def read(client: Client, uri: str) -> dict:
    (content,) = (await client.read_resource(uri)).contents
    return json.loads(content.text)


async def test_everything_around_the_tools_is_there_over_stdio(folder, mode):
    (folder / "notes.md").touch()
    worker = ScriptedWorker()
    async with worker.running() as url, over_stdio(folder, mode, url, **SMALL) as client:
        assert (await read(client, "sie://models/toy"))["name"] == "toy"
        assert (await read(client, "sie://taxonomies/shopify/ap"))["path"].startswith("Animals")
        result = (await client.call_tool("rerank", CALL)).structured_content
        assert (await read(client, result["resource"]))["count"] == 80
        with pytest.raises(MCPError, match="no result 'x' is kept here"):
            await client.read_resource("sie://results/x")
        told = {"path": "notes.md", "question": "Why?"}
        (message,) = (await client.get_prompt("find_answer", told)).messages
        assert "'notes.md'" in message.content.text
        found = await client.complete(
            PromptReference(name="find_answer"), {"name": "path", "value": "no"}
        )
        assert found.completion.values == ["notes.md"]
    assert (folder / "stderr.log").read_text() == ""


async def test_a_client_gets_the_tools_that_the_flag_names(folder, mode):
    async with over_stdio(folder, mode, "http://127.0.0.1:9", "--tools", "core") as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["rerank", "filter_context"]
        assert "`embed`" not in (client.instructions or "")


async def test_a_result_is_kept_by_the_replica_that_gave_it(folder, mode):
    worker = ScriptedWorker()
    async with worker.running() as url:
        with gateway(folder, url, **SMALL) as (one, _), gateway(folder, url, **SMALL) as (two, _):
            async with (
                Client(f"{one}/mcp", mode=mode) as first,
                Client(f"{two}/mcp", mode=mode) as second,
            ):
                result = (await first.call_tool("rerank", CALL)).structured_content
                assert (await read(first, result["resource"]))["count"] == 80
                with pytest.raises(MCPError, match="repeat the call"):
                    await second.read_resource(result["resource"])
