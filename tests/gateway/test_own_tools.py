"""A caller with a key is shown the tools that the key may call, and no others."""

from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sie_mcp.config import Config
from sie_mcp.gateway.app import build_app
from tests.access.conftest import KeyFile
from tests.gateway.in_memory import STANDARD
from tests.gateway.modern import modern
from tests.scripted_worker import ScriptedWorker
from tests.servers import serving

pytestmark = pytest.mark.anyio


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def listed(url: str, key: str, mode: str) -> list[str]:
    async with (
        httpx2.AsyncClient(headers=bearing(key)) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        return [tool.name for tool in (await client.list_tools()).tools]


async def test_a_key_lists_what_it_may_call_and_for_itself_alone(
    worker: ScriptedWorker, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.toml")
    every = keys.add("every")
    # One of them is not among those that the server offers.
    some = keys.add("some", tools=["embed", "rerank", "cluster"])
    none = keys.add("none", tools=[])
    async with worker.running() as worker_url:
        config = Config(worker_url=worker_url, auth="api-key", api_keys_file=keys.path)
        app = build_app(config, files_allowed=False)
        async with serving(app) as url:
            for mode in ("auto", "legacy"):
                assert await listed(url, every, mode) == STANDARD
                assert await listed(url, some, mode) == ["rerank", "embed"]
                assert await listed(url, none, mode) == []
            async with modern(url) as client:
                for key in (every, some):
                    answer = await client.ask("tools/list", {}, bearing(key))
                    assert answer["result"]["cacheScope"] == "private"
