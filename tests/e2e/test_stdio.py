"""`sie-mcp stdio` as a client starts it: start-up, stdout, one shared worker, its death."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.e2e.conftest import ROOT, environment, toy_worker
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

COMMAND = [sys.executable, "-m", "sie_mcp", "stdio"]
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
LOOK_AT_MODULES = """
import sys, json, atexit
from sie_mcp.cli import main
heavy = ("torch", "transformers", "sie_mcp.engine", "sie_mcp.adapters", "huggingface_hub")
atexit.register(lambda: print(json.dumps([m for m in heavy if m in sys.modules]), file=sys.stderr))
sys.argv = ["sie-mcp", "stdio"]
main()
"""


def client(env: dict[str, str], mode: str = "auto", cwd: Path = ROOT) -> Client:
    """Start a gateway as a client does."""
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=env, cwd=str(cwd))
    return Client(stdio_client(parameters), mode=mode)


def talk(process: subprocess.Popen, *messages: dict) -> dict:
    """Send messages; return the answer to the last one."""
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.fixture
def tiny(tmp_path) -> Path:
    """A tiny real checkpoint: the real worker can serve it at once."""
    folder = tmp_path / "tiny"
    save(ROWS[0], "dense", folder)
    return folder


def test_tools_are_listed_without_torch_in_the_process(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", LOOK_AT_MODULES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
        cwd=ROOT,
    )
    talk(process, {"id": 1, "method": "initialize", "params": INITIALIZE})
    listed = talk(
        process,
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    )
    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert names == [
        "rerank",
        "filter_context",
        "classify_taxonomy",
        "extract_entities",
        "embed",
        "list_models",
    ]
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert json.loads(errors.strip().splitlines()[-1]) == []


def test_a_client_that_discovers_first_may_still_initialize(tmp_path):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(tmp_path),
        cwd=ROOT,
    ) as process:
        found = talk(process, {"id": 1, "method": "server/discover", "params": {"_meta": meta}})
        assert found["result"]["supportedVersions"] == ["2026-07-28"]
        answer = talk(process, {"id": 2, "method": "initialize", "params": INITIALIZE})
        assert answer["result"]["protocolVersion"] == "2025-11-25"
        process.stdin.close()
        assert process.wait(30) == 0


def test_stdout_carries_protocol_only_even_when_a_library_prints(tmp_path):
    printing = (
        "import sys, sie_mcp.tools.rerank as tool, sie_mcp.cli as cli\n"
        "old = tool.check_query\n"
        "def noisy(*a, **k):\n"
        "    print('progress: 100%', flush=True); print('buffered')\n"
        "    return old(*a, **k)\n"
        "tool.check_query = noisy\n"
        "sys.argv = ['sie-mcp', 'stdio']\n"
        "cli.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", printing],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(tmp_path),
        cwd=ROOT,
    )
    talk(process, {"id": 1, "method": "initialize", "params": INITIALIZE})
    answer = talk(
        process,
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "rerank", "arguments": {"query": "q", "documents": []}},
        },
    )
    assert answer["id"] == 2
    rest, _ = process.communicate(timeout=30)
    assert [json.loads(line) for line in rest.splitlines()] == []


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_calls_a_tool_on_a_real_model(tmp_path, tiny, mode):
    with anyio.fail_after(90):
        async with client(environment(tmp_path), mode) as session:
            arguments = {"texts": ["alpha beta", "gamma"], "model": str(tiny)}
            result = await session.call_tool("embed", arguments)
            assert not result.is_error, result.content[0].text
            assert json.loads(result.content[0].text) == result.structured_content
            assert result.structured_content["count"] == 2


@pytest.mark.anyio
async def test_three_sessions_share_one_worker_which_may_die(tmp_path, tiny):
    """`kill -9` of the worker: the next call works on a new one and the session lives on."""
    env = environment(tmp_path)
    arguments = {"texts": ["alpha", "beta"], "model": str(tiny)}
    with anyio.fail_after(120):
        async with client(env) as first, client(env) as second, client(env) as third:
            async with anyio.create_task_group() as group:
                for session in (first, second, third):
                    group.start_soon(session.call_tool, "embed", arguments)
            (worker,) = workers(tmp_path)
            os.kill(worker.pid, signal.SIGKILL)
            for session in (first, second, third):
                result = await session.call_tool("embed", arguments)
                assert not result.is_error, result.content[0].text
            (new,) = workers(tmp_path)
            assert new.pid != worker.pid


def workers(tmp_path: Path) -> list[psutil.Process]:
    """Return the running workers of this test's folder."""
    found = []
    for one in psutil.process_iter(["cmdline", "status"]):
        command = one.info["cmdline"] or []
        is_ours = "worker" in command and any(str(tmp_path) in part for part in command)
        if is_ours and one.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(one)
    return found


@pytest.fixture(autouse=True)
def no_worker_left(tmp_path):
    yield
    for worker in workers(tmp_path):
        worker.kill()


@pytest.mark.anyio
async def test_a_slow_load_is_told_in_time_and_joined_by_the_next_call(tmp_path):
    """Case T64, with short times: the load outlasts the wait, progress is shown meanwhile."""
    messages: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    with anyio.fail_after(90), toy_worker(tmp_path, "--load-s", "8") as url:
        env = environment(tmp_path, worker_url=url, load_wait_s="3")
        async with client(env) as session:
            arguments = {"query": "q", "documents": ["a", "b"], "model": "toy"}
            first = await session.call_tool("rerank", arguments, progress_callback=progress)
            assert first.is_error
            body = json.loads(first.content[0].text)
            assert body["status"] == "loading"
            assert body["retry_after_s"] >= 1
            assert first.structured_content == body
            assert any("loading" in message for message in messages)
            result = first
            while result.is_error and "loading" in result.content[0].text:
                result = await session.call_tool("rerank", arguments)
            assert not result.is_error, result.content[0].text


@pytest.mark.anyio
async def test_a_slow_call_blocks_nothing_and_can_be_cancelled(tmp_path):
    """Case T65 over stdio: others answer meanwhile; a cancelled call's work is dropped."""
    with anyio.fail_after(90), toy_worker(tmp_path, "--forward-s", "4") as url:
        async with client(environment(tmp_path, worker_url=url), "legacy") as session:
            arguments = {"query": "q", "documents": ["a"], "model": "toy"}
            async with anyio.create_task_group() as group:
                group.start_soon(session.call_tool, "rerank", arguments)
                await anyio.sleep(0.5)
                with anyio.fail_after(2):
                    assert (await session.list_tools()).tools
                    quick = await session.call_tool("rerank", {"query": "q", "documents": []})
                    assert quick.is_error
                group.cancel_scope.cancel()
            with anyio.fail_after(30):
                again = await session.call_tool("rerank", arguments)
            assert not again.is_error, again.content[0].text
