"""Agents over stdio and their shared worker: started, joined, killed, idle, slow to load."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import httpx2
import numpy as np
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from sie_mcp.config import Config
from tests.e2e.conftest import (
    ROOT,
    START_LIMIT_S,
    STDIO,
    environment,
    noted_pids,
    serving,
    worker_pids,
)

pytestmark = pytest.mark.anyio

CALL = {"query": "q", "documents": ["0.1", "0.9"], "model": "toy"}
WITH_TOYS = [sys.executable, "-m", "tests.e2e.stdio_with_toys"]


def client(env: dict[str, str], mode: str = "auto", command: list[str] = STDIO) -> Client:
    """Start a gateway as an agent's client does."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=str(ROOT))
    return Client(stdio_client(parameters), mode=mode)


@pytest.fixture
def tiny(folder) -> Path:
    """A tiny real checkpoint of static vectors: the real worker serves it at once."""
    made = folder / "tiny"
    made.mkdir()
    words = ["[PAD]", "[UNK]", "alpha", "beta", "gamma", "the", "quick", "brown", "a", "neighbour"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(made / "tokenizer.json"))
    vectors = np.random.default_rng(1).standard_normal((len(words), 8)).astype(np.float32)
    save_file({"embeddings": vectors}, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    return made


async def test_an_agent_uses_a_real_model_on_a_worker_that_comes_and_goes(folder, tiny):
    """The worker starts by itself, serves both eras, leaves when idle and is there again."""
    env = environment(folder, worker_idle_exit_s="1.5")
    arguments = {"texts": ["alpha beta", "beta alpha", "gamma"], "model": str(tiny)}
    with anyio.fail_after(110):
        async with client(env, "auto") as new_era, client(env, "legacy") as old_era:
            for session in (new_era, old_era):
                result = await session.call_tool("embed", arguments)
                assert not result.is_error, result.content[0].text
                assert json.loads(result.content[0].text) == result.structured_content
                best = result.structured_content["pairs"][0]
                assert (best["a"], best["b"], best["score"]) == (0, 1, 1.0)
            wrong = await old_era.call_tool("embed", arguments | {"model": "./no-such-model"})
            assert wrong.is_error
            assert "no-such-model" in wrong.content[0].text
            # Where the machine is busy it may have left by now.
            first = noted_pids(folder)
            while worker_pids(folder):
                await anyio.sleep(0.05)
            again = await new_era.call_tool("embed", arguments)
            assert not again.is_error, again.content[0].text
            assert noted_pids(folder).isdisjoint(first)


async def test_two_agents_search_a_folder_whose_index_is_made_once(folder, tiny):
    """Over a real model and two gateways, which share the index as they share the worker."""
    pytest.importorskip("lancedb")
    files = folder / "files"
    files.mkdir()
    for name, text in {"a": "the quick brown", "b": "alpha beta", "c": "a neighbour"}.items():
        (files / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    env = environment(folder, allow=str(files))
    arguments = {"query": "beta alpha", "model": str(tiny), "rerank": False}
    results = []

    async def search(session: Client) -> None:
        results.append(await session.call_tool("search_files", arguments))

    with anyio.fail_after(START_LIMIT_S):
        async with client(env, "auto") as first, client(env, "legacy") as second:
            async with anyio.create_task_group() as group:
                group.start_soon(search, first)
                group.start_soon(search, second)
            (files / "b.md").unlink()
            await search(first)
    for result in results:
        assert not result.is_error, result.content[0].text
    *before, after = [result.structured_content["results"] for result in results]
    for found in before:
        assert (found[0]["path"], found[0]["lines"]) == ("b.md", "1-3")
        assert len(found) == 3
    assert "b.md" not in {passage["path"] for passage in after}
    assert (folder / "cache" / "indexes").stat().st_mode & 0o077 == 0


async def test_the_starter_models_do_every_job(folder, pulled):
    """Only where they were fetched before."""
    for name in ("all-MiniLM-L6-v2", "rampart-pii"):
        pulled(name)
    text = "Dogs bark all day. The cat meows at night. Anna Schmidt wrote to anna@example.com."
    calls = {
        "rerank": {"query": "which animal meows?", "documents": ["dogs bark", "the cat meows"]},
        "filter_context": {"query": "when does the cat meow?", "text": text, "max_tokens": 50},
        "classify_taxonomy": {"texts": ["litter for cats"], "taxonomy": ["Pets > Cats", "Office"]},
        "extract_entities": {"texts": [text]},
        "embed": {"texts": ["a cat", "a kitten", "a bond"]},
        "list_models": {},
    }
    results: dict[str, dict] = {}
    env = environment(folder, cache_dir=str(Config().cache_dir))
    with anyio.fail_after(START_LIMIT_S):
        async with client(env) as session:
            for tool, arguments in calls.items():
                result = await session.call_tool(tool, arguments)
                assert not result.is_error, result.content[0].text
                results[tool] = result.structured_content
    assert results["rerank"]["results"][0]["index"] == 1
    assert "meows" in results["filter_context"]["results"][0]["text"]
    assert results["classify_taxonomy"]["results"][0]["path"] == "Pets > Cats"
    (found,) = results["extract_entities"]["results"]
    assert {"Schmidt", "anna@example.com"} <= {entity["text"] for entity in found["entities"]}
    best = results["embed"]["pairs"][0]
    assert (best["a"], best["b"]) == (0, 1)
    loaded = [model["name"] for model in results["list_models"]["models"] if model["loaded"]]
    assert sorted(loaded) == ["all-MiniLM-L6-v2", "potion-base-8M", "rampart-pii"]


async def test_the_starter_encoder_compares_rows_and_files(folder, pulled):
    """Only where it was fetched before."""
    pytest.importorskip("lancedb")
    pulled("all-MiniLM-L6-v2")
    files = folder / "files"
    files.mkdir()
    rows = ["My card has not arrived.", "my card hasn't arrived yet", "How do I get a loan?"]
    (files / "rows.txt").write_text("\n".join(rows))
    (files / "loans.md").write_text("Ways to borrow money for a house.\n")
    env = environment(
        folder,
        cache_dir=str(Config().cache_dir),
        index_dir=str(folder / "indexes"),
        allow=str(files),
        tools="similar",
    )
    table = {"path": "rows.txt"}
    calls = {
        "deduplicate": table | {"threshold": 0.85},
        "cluster": table | {"num_clusters": 2, "noise": False},
        "find_similar": {"text": "How do I get a loan?", "paths": ["loans.md"]},
    }
    results: dict[str, dict] = {}
    with anyio.fail_after(START_LIMIT_S):
        async with client(env) as session:
            for tool, arguments in calls.items():
                result = await session.call_tool(tool, arguments)
                assert not result.is_error, result.content[0].text
                results[tool] = result.structured_content
    (group,) = results["deduplicate"]["groups"]
    assert (group["keep"]["index"], group["duplicates"][0]["index"]) == (0, 1)
    assert [found["size"] for found in results["cluster"]["clusters"]] == [2, 1]
    assert results["find_similar"]["results"][0]["path"] == "loans.md"


async def test_three_sessions_share_one_worker_which_may_be_killed_in_mid_call(folder):
    env = environment(folder, load_wait_s="50")
    results = []

    async def call(session: Client) -> None:
        results.append(await session.call_tool("rerank", CALL))

    with anyio.fail_after(110):
        async with (
            client(env, "auto", WITH_TOYS) as first,
            client(env, "legacy", WITH_TOYS) as second,
            client(env, "auto", WITH_TOYS) as third,
        ):
            sessions = (first, second, third)
            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(call, session)
            (worker,) = worker_pids(folder)
            held = folder / "run" / "held"
            held.touch()
            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(call, session)
                await until_in_flight(folder)
                os.kill(worker, signal.SIGKILL)
                held.unlink()
            (new,) = worker_pids(folder)
            assert new != worker
            for session in sessions:
                await call(session)
            assert worker_pids(folder) == {new}
    assert len(results) == 9
    for result in results:
        assert not result.is_error, result.content[0].text


async def until_in_flight(folder: Path) -> None:
    """Wait until the local worker has requests in hand."""
    (socket,) = (folder / "run").glob("*.sock")
    transport = httpx2.AsyncHTTPTransport(uds=str(socket))
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://worker", timeout=START_LIMIT_S
    ) as http:
        page = ""
        while "sie_requests_in_flight 3.0" not in page:
            page = (await http.get("/metrics")).text


async def test_a_slow_load_is_told_in_time_and_joined_by_the_next_call(folder):
    """Case T64 with a short wait: the load outlasts it, and progress is shown meanwhile."""
    held = folder / "held"
    held.touch()
    command = [sys.executable, "-m", "tests.toy_worker", "--load-held-by", str(held)]
    heard: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    with (
        serving(command, environment(folder), folder / "worker.log") as (url, _),
        anyio.fail_after(START_LIMIT_S),
    ):
        async with client(environment(folder, worker_url=url, load_wait_s="1")) as session:
            first = await session.call_tool("rerank", CALL, progress_callback=progress)
            assert first.is_error
            body = json.loads(first.content[0].text)
            assert body["status"] == "loading"
            assert body["retry_after_s"] >= 1
            assert first.structured_content == body
            assert any("loading" in message for message in heard)
            held.unlink()
            result = first
            while result.is_error and "loading" in result.content[0].text:
                result = await session.call_tool("rerank", CALL)
            assert not result.is_error, result.content[0].text
