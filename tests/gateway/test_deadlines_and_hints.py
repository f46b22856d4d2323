"""Everything a client can ask for ends in time, and says for how long it stays as it is."""

import asyncio
import re

import anyio
import pytest
from mcp import MCPError
from mcp.types import PromptReference

from tests.gateway.front import CALL, gateway
from tests.gateway.in_memory import session
from tests.gateway.modern import Modern
from tests.scripted_worker import ScriptedWorker, until

pytestmark = pytest.mark.anyio
LISTS = (
    "tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover",
)  # fmt: skip
# Where the machine is busy, the first may be over before the worker hears of a request at all.
TIMEOUTS_S = (0.2, 2.0, 8.0)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("uri", ["sie://models", "sie://models/toy"])
async def test_what_cannot_be_read_in_time_is_given_up(
    worker: ScriptedWorker, mode: str, uri: str
) -> None:
    worker.always = worker.hold(asyncio.Event())
    for timeout_s in TIMEOUTS_S:
        async with session(worker, mode, tool_timeout_s=timeout_s) as client:
            num_before = len(worker.seen)
            with anyio.fail_after(30), pytest.raises(MCPError, match="in time"):
                await client.read_resource(uri)
            if len(worker.seen) > num_before:
                await until(lambda: worker.num_hung_up == len(worker.seen))
                return
    pytest.fail("no read came as far as the worker")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_cannot_be_completed_in_time_has_no_values(
    worker: ScriptedWorker, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.always = worker.hold(asyncio.Event())
    graph, typed = PromptReference(name="build_knowledge_graph"), {"name": "model", "value": "t"}
    async with session(worker, mode) as client:
        for wait_s in TIMEOUTS_S:
            monkeypatch.setattr("sie_mcp.gateway.completions.WAIT_S", wait_s)
            with anyio.fail_after(30):
                found = await client.complete(graph, typed)
            assert found.completion.values == []
            if worker.seen:
                await until(lambda: worker.num_hung_up == len(worker.seen))
                return
    pytest.fail("no completion came as far as the worker")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_prompt_that_is_not_filled_in_in_time_is_given_up(
    worker: ScriptedWorker, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("mcp.server.mcpserver.server.MCPServer.get_prompt", endless)
    async with session(worker, mode, tool_timeout_s=0.1) as client:
        with anyio.fail_after(30), pytest.raises(MCPError, match="in time"):
            await client.get_prompt("find_answer", {"path": "a.md", "question": "What?"})


@pytest.mark.parametrize("method", LISTS)
async def test_every_list_says_for_how_long_it_stays(front, method: str) -> None:
    result = await Modern(front.http).result(method)
    assert result["ttlMs"] == 300_000 and result["cacheScope"] == "public"


async def test_what_is_read_says_for_how_long_it_stays_and_for_whom() -> None:
    async with gateway(max_result_tokens=400) as front:
        client = Modern(front.http)
        documents = [f"{number}" for number in range(300)]
        arguments = {**CALL, "documents": documents, "top_k": 100, "return_text": True}
        kept = (await client.call("rerank", **arguments))["structuredContent"]["resource"]
        expected = {
            "sie://models": (5_000, "private"),
            "sie://models/toy": (5_000, "private"),
            "sie://taxonomies/shopify/ap": (3_600_000, "public"),
            kept: (60_000, "private"),
        }
        for uri, (ttl_ms, scope) in expected.items():
            read = await client.result("resources/read", uri=uri)
            assert (read["ttlMs"], read["cacheScope"]) == (ttl_ms, scope), uri
        # Every kind of resource is among these, so that a new one is not forgotten.
        templates = (await client.result("resources/templates/list"))["resourceTemplates"]
        listed = (await client.result("resources/list"))["resources"]
        known = [re.match(r"sie://\w+", one)[0] for one in expected]  # type: ignore[index]
        for uri in [one["uriTemplate"] for one in templates] + [one["uri"] for one in listed]:
            assert re.match(r"sie://\w+", uri)[0] in known  # type: ignore[index]


async def test_what_is_not_there_is_not_to_be_kept(front) -> None:
    answer = await Modern(front.http).ask("resources/read", {"uri": "sie://results/none"})
    assert "ttlMs" not in answer.get("error", {}) and "result" not in answer
