"""Tools and the vectors that a gateway knows: what a worker still sees, what counts, who may."""

from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sie_mcp import metrics
from sie_mcp.errors import InvalidInput
from tests.access.conftest import KeyFile
from tests.access.test_both_doors import bearing
from tests.gateway.in_memory import text_of
from tests.gateway.vectors.test_cache import Revised, caching, encode
from tests.scripted_worker import fails_with

pytestmark = pytest.mark.anyio
TEXTS = ["a", "bb", "cccc", "dddddddd"]
CALLS = {
    "embed": {"texts": TEXTS, "model": "toy"},
    "cluster": {"texts": TEXTS, "model": "toy"},
    "deduplicate": {"texts": TEXTS, "model": "toy"},
}


@asynccontextmanager
async def tooled(tmp_path, key: str | None = None, **settings):
    """A gateway that knows vectors, an agent, and its worker, which has plain models' cards too."""
    async with caching(tmp_path, **({"tools": ("all",)} | settings)) as (front, worker):

        async def answer(request):
            is_plain = request.url.path.startswith("/v1/models")
            return None if is_plain else await worker(request)

        front.worker.always = answer
        async with (
            httpx2.AsyncClient(headers=bearing(key) if key else {}) as http,
            Client(streamable_http_client(f"{front.url}/mcp", http_client=http)) as client,
        ):
            yield front, worker, client


async def told(client: Client, tool: str = "embed", **more: object) -> object:
    result = await client.call_tool(tool, CALLS[tool] | more)
    assert not result.is_error, text_of(result)
    return result.structured_content


def sent(worker: Revised) -> list[str]:
    return [text for texts in worker.asked for text in texts]


@pytest.mark.parametrize("tool", CALLS)
async def test_what_a_tool_embedded_is_known_when_it_comes_again(tmp_path, tool):
    async with tooled(tmp_path) as (_, worker, client):
        first = await told(client, tool)
        assert sorted({*sent(worker)} & {*TEXTS}) == TEXTS
        asked = len(worker.asked)
        assert await told(client, tool) == first
        assert len(worker.asked) == asked and worker.num_checks >= 1
        await told(client, tool, texts=[*TEXTS, "new one"])
        assert set(sent(worker)[sum(map(len, worker.asked[:asked])) :]) == {"new one"}


async def test_routes_and_tools_know_the_same_vectors(tmp_path):
    async with tooled(tmp_path) as (front, worker, client):
        params = {"output_types": ["dense"], "options": {"is_query": False, "normalize": True}}
        await encode(front, *TEXTS, body={"params": params})
        await told(client)
        assert worker.asked == [TEXTS]


async def test_a_changed_revision_gives_a_tool_no_old_vectors(tmp_path):
    async with tooled(tmp_path) as (_, worker, client):
        first = await told(client)
        worker.revision = "quite another revision"
        assert await told(client) != first
        assert worker.asked == [TEXTS, TEXTS]


async def test_tokens_of_a_hit_do_not_count_and_the_call_does(tmp_path, one_minute):
    keys = KeyFile(tmp_path / "keys.toml")
    key = keys.add("ci", tokens_per_minute=1_000, requests_per_minute=4)
    texts = ["x" * 3_000, "y"]
    settings = {"auth": "api-key", "api_keys_file": keys.path}
    async with tooled(tmp_path, key, **settings) as (_, _, client):
        before = metrics.TOOL_TOKENS.labels("embed")._value.get()
        for _ in range(3):
            await told(client, texts=texts)
        assert metrics.TOOL_TOKENS.labels("embed")._value.get() - before == 3_001
        refused = await client.call_tool("embed", CALLS["embed"] | {"texts": ["z" * 3_000, "y"]})
        assert "1,000 tokens a minute" in text_of(refused), "what is not known counts as ever"
        refused = await client.call_tool("embed", CALLS["embed"] | {"texts": texts})
        assert "4 requests a minute" in text_of(refused)


async def test_who_may_not_use_a_model_gets_no_vectors_that_are_known(tmp_path):
    keys = KeyFile(tmp_path / "keys.toml")
    may = keys.add("may")
    other = keys.add("other", models="")
    keys.write(keys.text.replace('models = ""', 'models = ["another"]'))
    settings = {"auth": "api-key", "api_keys_file": keys.path}
    async with tooled(tmp_path, may, **settings) as (front, worker, client):
        await told(client)
        async with (
            httpx2.AsyncClient(headers=bearing(other)) as http,
            Client(streamable_http_client(f"{front.url}/mcp", http_client=http)) as stranger,
        ):
            seen = len(front.worker.seen)
            refused = await stranger.call_tool("embed", CALLS["embed"])
        assert refused.is_error and "may not use model 'toy'" in text_of(refused)
        assert worker.num_checks == 0
        assert not [one for one in front.worker.seen[seen:] if "/encode/" in one.path]


async def test_a_refusal_is_the_worker_s_own_for_all_that_was_asked(tmp_path):
    async with tooled(tmp_path) as (front, _, client):
        await told(client)
        seen = len(front.worker.seen)
        front.worker.script = [
            fails_with(InvalidInput(f"items[{place}] is wrong")) for place in (0, 4)
        ]
        refused = await client.call_tool("embed", CALLS["embed"] | {"texts": [*TEXTS, "bad"]})
        assert "items[4] is wrong" in text_of(refused)
        texts = [one.texts for one in front.worker.seen[seen:] if "/encode/" in one.path]
        assert texts == [["bad"], [*TEXTS, "bad"]]


async def test_without_the_setting_a_tool_s_texts_all_go_to_a_worker(tmp_path):
    async with tooled(tmp_path, embedding_cache_bytes=0) as (_, worker, client):
        for _ in range(2):
            await told(client)
        assert worker.asked == [TEXTS, TEXTS] and worker.num_checks == 0
