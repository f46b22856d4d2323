"""`sie-mcp stdio` as a client starts it: start, stdout, the shared worker, slow and bad calls."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import (
    INITIALIZE,
    ROOT,
    environment,
    stdio,
    worker_pids,
)
from tests.scripted_worker import ScriptedWorker, until

pytestmark = pytest.mark.anyio

TOOLS = [
    "rerank",
    "filter_context",
    "search_files",
    "classify_taxonomy",
    "extract_entities",
    "embed",
    "list_models",
]
CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}

# Looks at the process from inside, as it ends.
SEES_HEAVY_MODULES = """
import atexit, json, sys
heavy = ("torch", "transformers", "tokenizers", "huggingface_hub", "sie_mcp.engine",
         "sie_mcp.adapters", "sie_mcp.gateway.app", "pyarrow", "pypdf", "selectolax")
atexit.register(lambda: print("HEAVY", [name for name in heavy if name in sys.modules]))
"""
# A library that prints when it is imported, when it works and when the process ends; the last two
# without a flush.
PRINTS = """
import atexit, builtins, os, subprocess
print("before anything")
real_import = builtins.__import__

def noisy_import(name, *args, **options):
    module = real_import(name, *args, **options)
    if name == "sie_mcp.tools.registry":
        print("imported", flush=True)
        os.write(1, b"raw\\n")
        subprocess.run(["echo", "child"])
    if name == "sie_mcp.client" and not hasattr(module, "is_noisy"):
        module.is_noisy = True
        real_models = module.EngineClient.models

        async def models(self):
            print("working", flush=True)
            print("still working")
            return await real_models(self)

        module.EngineClient.models = models
    return module

builtins.__import__ = noisy_import
atexit.register(print, "the end")
"""


def with_start_up_code(env: dict[str, str], folder: Path, code: str) -> dict[str, str]:
    """Let every Python process of the environment run some code before its own."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(code)
    return env | {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}"}


def succeeded(answer: dict) -> bool:
    return not answer["result"].get("isError", False)


async def test_tools_are_listed_without_torch_in_the_process(folder):
    env = with_start_up_code(environment(folder), folder, SEES_HEAVY_MODULES)
    async with stdio(env, folder) as pipe:
        await pipe.initialize()
        await pipe.send(id=2, method="tools/list", params={})
        listed = await pipe.answer(2)
        assert [tool["name"] for tool in listed["result"]["tools"]] == TOOLS
        assert await pipe.end() == b""
        assert pipe.process.returncode == 0
    assert (folder / "stderr.log").read_text() == "HEAVY []\n"
    # Nothing was started either.
    assert not worker_pids(folder)


async def test_a_client_that_discovers_first_may_still_initialize(folder):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with stdio(environment(folder), folder) as pipe:
        await pipe.send(id=1, method="server/discover", params={"_meta": meta})
        found = (await pipe.answer(1))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "sie"
        await pipe.send(id=2, method="initialize", params=INITIALIZE)
        assert (await pipe.answer(2))["result"]["protocolVersion"] == "2025-11-25"
        await pipe.end()
        assert pipe.process.returncode == 0


async def test_stdout_carries_the_protocol_only_whatever_a_library_prints(folder):
    worker = ScriptedWorker()
    async with worker.running() as url:
        env = with_start_up_code(environment(folder, worker_url=url), folder, PRINTS)
        async with stdio(env, folder) as pipe:
            await pipe.initialize()
            await pipe.call(2, "list_models")
            assert succeeded(await pipe.answer(2))
            assert await pipe.end() == b""
            assert all(message["jsonrpc"] == "2.0" for message in pipe.received)
    printed = (folder / "stderr.log").read_text()
    for text in ("before anything", "imported", "raw", "child", "working", "the end"):
        assert text in printed


async def test_lines_that_are_no_message_end_nothing(folder):
    async with stdio(environment(folder), folder) as pipe:
        await pipe.initialize()
        for line in (b"", b"hello", b"{", b"[]", b"\xff\xfe", b'{"jsonrpc": "2.0", "id": 7}'):
            await pipe.write(line)
        await pipe.write(
            b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params":'
            b' {"name": "rerank", "arguments": {"query": "\\ud83d", "documents": ["a"]}}}'
        )
        refused = (await pipe.answer(3))["result"]
        assert refused["isError"]
        assert "half of a surrogate pair" in refused["content"][0]["text"]
        await pipe.send(id=4, method="no/such", params={})
        assert (await pipe.answer(4))["error"]["code"] == -32601
        await pipe.send(id=5, method="tools/list", params={})
        assert len((await pipe.answer(5))["result"]["tools"]) == 7
        await pipe.end()
        assert pipe.process.returncode == 0


async def test_the_end_of_stdin_ends_the_process_even_in_mid_call(folder):
    worker = ScriptedWorker()
    worker.always = worker.hold(asyncio.Event())
    async with worker.running() as url:
        async with stdio(environment(folder, worker_url=url), folder) as pipe:
            await pipe.initialize()
            await pipe.call(2, "rerank", **CALL)
            await until(lambda: len(worker.seen) == 1)
            await pipe.end()
            assert pipe.process.returncode == 0
        await until(lambda: worker.num_hung_up == 1)
    assert "Traceback" not in (folder / "stderr.log").read_text()


async def test_an_interrupt_ends_the_process_at_once(folder):
    async with stdio(environment(folder), folder) as pipe:
        await pipe.initialize()
        pipe.process.send_signal(signal.SIGINT)
        assert await pipe.process.wait() == -signal.SIGINT


async def test_a_client_that_is_gone_ends_the_process_quietly(folder):
    async with stdio(environment(folder), folder) as pipe:
        await pipe.initialize()
        await pipe.process.stdout.aclose()
        await pipe.send(id=2, method="tools/list", params={})
        await pipe.process.stdin.aclose()
        assert await pipe.process.wait() == 0
    assert "Traceback" not in (folder / "stderr.log").read_text()
    assert "Exception" not in (folder / "stderr.log").read_text()


async def test_without_an_engine_the_tools_say_what_to_install(folder):
    env = environment(folder)
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
    )
    env |= {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    async with stdio(env, folder) as pipe:
        await pipe.initialize()
        await pipe.call(2, "rerank", **CALL)
        result = (await pipe.answer(2))["result"]
        assert result["isError"]
        assert result["content"][0]["text"].endswith(
            "the engine is not installed here; run: pip install 'sie-mcp[engine]' (no module torch)"
        )
        await pipe.send(id=3, method="tools/list", params={})
        assert len((await pipe.answer(3))["result"]["tools"]) == 7


async def test_a_slow_call_blocks_nothing_and_a_cancelled_one_is_never_answered(folder):
    """Case T65 over stdio."""
    worker = ScriptedWorker()
    worker.script = [worker.hold(asyncio.Event())]
    async with (
        worker.running() as url,
        stdio(environment(folder, worker_url=url), folder) as pipe,
    ):
        await pipe.initialize()
        await pipe.call(2, "rerank", **CALL)
        await until(lambda: len(worker.seen) == 1)
        await pipe.send(id=3, method="ping", params={})
        assert (await pipe.answer(3))["result"] == {}
        await pipe.send(id=4, method="tools/list", params={})
        assert (await pipe.answer(4))["result"]["tools"]
        await pipe.call(5, "rerank", **CALL)
        assert succeeded(await pipe.answer(5))
        assert worker.num_hung_up == 0
        await pipe.send(
            method="notifications/cancelled", params={"requestId": 2, "reason": "changed my mind"}
        )
        await until(lambda: worker.num_hung_up == 1)
        await pipe.call(6, "rerank", **CALL)
        assert succeeded(await pipe.answer(6))
        assert await pipe.end() == b""
        assert [message["id"] for message in pipe.received] == ["init", 3, 4, 5, 6]
    assert (folder / "stderr.log").read_text() == ""
