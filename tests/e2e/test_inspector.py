"""The protocol's own Inspector, as a user runs it: lists all tools, calls those that need no file.

Needs Node 22.19 or newer and, for the first run, the npm registry; skipped, with the reason, where
either is missing.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sie_mcp.config import Config
from sie_mcp.gateway.app import MCP_PATH, build_app
from sie_mcp.tools.registry import build_tools
from tests.e2e.conftest import ROOT, environment
from tests.scripted_worker import ScriptedWorker
from tests.servers import serving

pytestmark = pytest.mark.anyio

PACKAGE = "@modelcontextprotocol/inspector@2.12.0"
LEAST_NODE = (22, 19)
LIMIT_S = 60.0
TOOL_ERROR = 5
CALLS: dict[str, dict[str, Any]] = {
    "rerank": {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"},
    "filter_context": {"query": "q", "text": "One thing. Another thing.", "model": "toy"},
    "classify_taxonomy": {
        "texts": ["0.5"],
        "taxonomy": ["Animals > Cats", "Animals > Dogs"],
        "model": "toy",
    },
    "extract_entities": {"texts": ["Anna"], "model": "toy"},
    "embed": {"texts": ["0.1", "0.2"], "model": "toy"},
    "list_models": {},
}


@dataclass(frozen=True)
class Run:
    """What one run of the Inspector said."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.stderr
        return json.loads(self.stdout)


@pytest.fixture(scope="module")
def npx() -> str:
    """The path of npx, where Node is new enough and the Inspector can be had."""
    found, node = shutil.which("npx"), shutil.which("node")
    if found is None or node is None:
        pytest.skip("no Node here; the Inspector needs 22.19 or newer")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < LEAST_NODE:
        pytest.skip(f"Node is {version.strip()}; the Inspector needs 22.19 or newer")
    tried = subprocess.run(
        [found, "-y", PACKAGE, "--cli", "--version"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if tried.returncode:
        pytest.skip(f"the Inspector cannot be installed: {tried.stderr.strip()[-200:]}")
    return found


async def inspect(npx: str, folder: Path, *arguments: str) -> Run:
    """Run the Inspector with its own home folder."""
    process = await asyncio.create_subprocess_exec(
        npx, "-y", PACKAGE, "--cli", *arguments,
        env=environment(folder) | {"MCP_CATALOG_PATH": str(folder / "catalog.json")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(LIMIT_S):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Run(process.returncode, stdout.decode(), stderr.decode())


@asynccontextmanager
async def http_server(folder: Path) -> AsyncIterator[str]:
    """Serve all tools over HTTP, in front of a scripted worker; yield the MCP URL."""
    async with ScriptedWorker().running() as worker_url:
        config = Config(worker_url=worker_url, cache_dir=folder / "cache", tools=("all",))
        async with serving(build_app(config, files_allowed=False)) as url:
            yield f"{url}{MCP_PATH}"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_finds_no_fault_with_any_tool_over_stdio(npx, folder, era):
    server = [sys.executable, "-m", "sie_mcp", "stdio", "--tools", "all"]
    run = await inspect(npx, folder, "--cwd", str(ROOT), *strictly(era), *server)
    assert_clean(run)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_finds_no_fault_with_any_tool_over_http(npx, folder, era):
    async with http_server(folder) as url:
        told = ["--server-url", url, "--transport", "http"]
        assert_clean(await inspect(npx, folder, *told, *strictly(era)))


def strictly(era: str) -> list[str]:
    """Return the flags that list the tools and have each schema checked for portability."""
    told = ["--protocol-era", era, "--format", "json", "-q"]
    return [*told, "--method", "tools/list", "--strict"]


def assert_clean(run: Run) -> None:
    """All tools are listed in their order, and nothing was said on them, not even a warning."""
    listed = [tool["name"] for tool in run.json["result"]["tools"]]
    assert listed == [tool.name for tool in build_tools()]
    said = [line for line in run.stderr.splitlines() if not line.startswith("npm ")]
    assert said == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_lists_and_reads_what_stands_around_the_tools(npx, folder, era):
    server = [sys.executable, "-m", "sie_mcp", "stdio"]
    told = ["--cwd", str(ROOT), "--protocol-era", era, "--format", "json", "-q", "--method"]
    listed = {
        "resources/list": ("resources", "uri", ["sie://models"]),
        "resources/templates/list": (
            "resourceTemplates",
            "uriTemplate",
            [
                "sie://models/{+id}",
                "sie://taxonomies/{name}/{+node}",
                "sie://results/{id}{?offset}",
            ],
        ),
        "prompts/list": (
            "prompts",
            "name",
            ["triage_folder", "classify_catalogue", "build_knowledge_graph", "find_answer"],
        ),
    }
    for method, (key, field, expected) in listed.items():
        run = await inspect(npx, folder, *told, method, *server)
        assert [entry[field] for entry in run.json["result"][key]] == expected
    node = "sie://taxonomies/shopify/ap"
    run = await inspect(npx, folder, *told, "resources/read", "--uri", node, *server)
    (content,) = run.json["result"]["contents"]
    assert json.loads(content["text"])["path"] == "Animals & Pet Supplies"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_calls_the_tools_over_http(npx, folder, era):
    async with http_server(folder) as url:
        told = ["--server-url", url, "--transport", "http", "--protocol-era", era]
        told += ["--method", "tools/call", "--format", "json", "-q"]
        for tool, arguments in CALLS.items():
            text = json.dumps(arguments)
            run = await inspect(npx, folder, *told, "--tool-name", tool, "--tool-args-json", text)
            result = run.json["result"]
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        wrong = json.dumps(CALLS["rerank"] | {"topk": 3})
        run = await inspect(npx, folder, *told, "--tool-name", "rerank", "--tool-args-json", wrong)
        assert run.code == TOOL_ERROR
        assert "did you mean top_k?" in run.stdout + run.stderr
