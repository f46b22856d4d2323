"""What can be read without a call: models, taxonomies, and results that did not fit."""

import json

import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS

from sie_mcp.errors import ModelNotFound, QueueFull
from tests.gateway.front import gateway
from tests.gateway.in_memory import broken, session
from tests.scripted_worker import ScriptedWorker, fails_with

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]

# More than fits an answer of this size.
SMALL = {"max_result_tokens": 200}
RANKING = {
    "query": "q",
    "documents": [{"id": f"passage number {n}", "text": str(n)} for n in range(50)],
    "top_k": 30,
    "model": "toy",
}


async def read(client: Client, uri: str) -> dict:
    (content,) = (await client.read_resource(uri)).contents
    assert content.mime_type == "application/json"
    return json.loads(content.text)


async def refusal(client: Client, uri: str) -> str:
    with pytest.raises(MCPError) as refused:
        await client.read_resource(uri)
    assert refused.value.error.code == INVALID_PARAMS
    assert refused.value.error.data == {"uri": uri}
    return refused.value.error.message


async def test_resources_are_listed_without_a_worker(mode):
    async with broken(mode, AssertionError("no worker may be asked for")) as client:
        assert [one.uri for one in (await client.list_resources()).resources] == ["sie://models"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == [
            "sie://models/{+id}",
            "sie://taxonomies/{name}/{+node}",
            "sie://results/{id}{?offset}",
        ]


async def test_lists_may_be_cached(worker, mode):
    async with session(worker, mode) as client:
        lists = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resources(),
            await client.list_resource_templates(),
        ]
    # Older clients are not told.
    expected = (300_000, "public") if mode == "auto" else (0, "private")
    for listed in lists:
        assert (listed.ttl_ms, listed.cache_scope) == expected


async def test_models_are_what_the_tool_says(worker, mode):
    async with session(worker, mode) as client:
        listed = (await client.call_tool("list_models", {})).structured_content
        assert await read(client, "sie://models") == listed


@pytest.mark.parametrize("name", ["toy", "org/toy", "org%2Ftoy"])
async def test_a_model_has_a_card(worker, mode, name):
    async with session(worker, mode) as client:
        card = await read(client, f"sie://models/{name}")
    assert card["does"] == ["encode", "score", "extract"]
    assert card["labels"] == ["name"]
    assert card["state"] == "available"
    # The worker sees the whole name, as one part of its path.
    assert worker.seen[-1].model == name.replace("%2F", "/")


async def test_an_unknown_model_is_not_found(mode):
    error = ModelNotFound("no model 'x'; known: toy")
    async with session(ScriptedWorker(always=fails_with(error)), mode) as client:
        assert await refusal(client, "sie://models/x") == "no model 'x'; known: toy"


async def test_a_busy_worker_is_no_missing_resource(mode):
    worker = ScriptedWorker(always=fails_with(QueueFull("full"), retry_after="0.01"))
    async with session(worker, mode) as client:
        for uri in ("sie://models", "sie://models/x"):
            with pytest.raises(MCPError, match="nothing is wrong with your call") as refused:
                await client.read_resource(uri)
            assert refused.value.error.code != INVALID_PARAMS


async def test_a_taxonomy_can_be_read_from_the_top_down(worker, mode):
    async with session(worker, mode) as client:
        top = await read(client, "sie://taxonomies/shopify/")
        first = top["children"][0]
        assert first == {
            "category_id": "ap",
            "name": "Animals & Pet Supplies",
            "num_below": first["num_below"],
        }
        by_id = await read(client, "sie://taxonomies/shopify/ap-1")
        assert by_id["path"] == "Animals & Pet Supplies > Live Animals"
        assert by_id["parent"] == "Animals & Pet Supplies"
        by_path = await read(
            client, "sie://taxonomies/Shopify/animals%20%26%20pet%20supplies%20%3E%20live%20animals"
        )
        assert by_path == by_id


async def test_a_taxonomy_may_be_a_file_in_an_allowed_folder(worker, mode, tmp_path):
    (tmp_path / "own.txt").write_text("Tools > Saws > Hand saws\nTools > Hammers\n")
    async with session(worker, mode, allow=(tmp_path,)) as client:
        node = await read(client, "sie://taxonomies/own.txt/Tools")
        assert node["children"] == [{"name": "Saws", "num_below": 1}, {"name": "Hammers"}]
        assert "no file 'none.txt'" in await refusal(client, "sie://taxonomies/none.txt/Tools")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("sie://taxonomies/shopify/zz-9", "shopify has no category 'zz-9'"),
        ("sie://taxonomies/amazon/x", "no taxonomy 'amazon'; built in: shopify"),
        ("sie://taxonomies/..%2Fx.txt/a", "Unknown resource"),
        ("sie://taxonomies/%2Fetc%2Fx.txt/a", "Unknown resource"),
        ("sie://results/none", "no result 'none' is kept here (any more)"),
        ("sie://models/", "name a model; sie://models lists them"),
        (f"sie://taxonomies/shopify/{'x' * 4_096}", "no resource has a URI over 4,096"),
        ("sie://nothing", "Unknown resource: sie://nothing"),
    ],
)
async def test_what_is_not_there_is_not_found(worker, mode, uri, says):
    async with session(worker, mode) as client:
        assert says in await refusal(client, uri)


# Results that did not fit.


async def pages(client: Client, uri: str) -> list[dict]:
    """Read a kept result to its end; return all entries."""
    entries: list[dict] = []
    while uri:
        text = (await client.read_resource(uri)).contents[0].text
        assert len(text) / 4 <= 200
        found = json.loads(text)
        assert found["offset"] == len(entries)
        entries += found["entries"]
        uri = found.get("next", "")
    assert len(entries) == found["count"]
    return entries


async def test_a_ranking_that_does_not_fit_can_be_read_to_its_end(worker, mode):
    async with session(worker, mode, **SMALL) as client:
        result = (await client.call_tool("rerank", RANKING)).structured_content
        assert result["omitted"]
        again = (await client.call_tool("rerank", RANKING)).structured_content
        assert again == result
        entries = await pages(client, result["resource"])
    assert len(entries) == 50  # all, not the top_k alone
    assert entries[: len(result["results"])] == result["results"]


async def test_texts_that_do_not_fit_can_be_read_too(worker, mode):
    documents = ["a" * 300, "b" * 200, "c" * 5_000, "d"]
    call = {"query": "q", "documents": documents, "return_text": True, "model": "toy"}
    async with session(worker, mode, **SMALL) as client:
        result = (await client.call_tool("rerank", call)).structured_content
        assert result["texts_omitted"]
        entries = await pages(client, result["resource"])
    long = next(entry for entry in entries if isinstance(entry, str))  # longer than a page
    assert long.startswith('{"index":2') and long.endswith("c…")
    assert {entry["text"] for entry in entries if isinstance(entry, dict)} == {
        documents[place] for place in (0, 1, 3)
    }


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("classify_taxonomy", {"taxonomy": [f"top > child {n}" for n in range(9)]}),
        ("extract_entities", {}),
        ("embed", {"compare_to": ["0.5", "0.7"]}),
    ],
)
async def test_other_tools_keep_what_does_not_fit(worker, mode, tmp_path, tool, arguments):
    call = {"texts": [f"0.{n}" for n in range(1, 60)], "model": "toy"} | arguments
    async with session(worker, mode, cache_dir=tmp_path, **SMALL) as client:
        result = (await client.call_tool(tool, call)).structured_content
        assert result["omitted"]
        entries = await pages(client, result["resource"])
        assert [entry["index"] for entry in entries] == list(range(59))


async def test_what_fits_is_not_kept_and_nothing_is_if_the_setting_says_so(worker, mode):
    async with session(worker, mode) as client:
        result = (await client.call_tool("rerank", RANKING)).structured_content
        assert "resource" not in result
    async with session(worker, mode, max_kept_results=0, **SMALL) as client:
        result = (await client.call_tool("rerank", RANKING)).structured_content
        assert result["omitted"]
        assert "resource" not in result


@pytest.mark.parametrize("offset", ["50", "-1", "x", "٣", "9" * 3_000, "0" * 20 + "99"])
async def test_an_offset_that_is_none_is_refused(worker, mode, offset):
    async with session(worker, mode, **SMALL) as client:
        result = (await client.call_tool("rerank", RANKING)).structured_content
        says = await refusal(client, f"{result['resource']}?offset={offset}")
        assert "is none of 0 to 49" in says
        assert len(says) < 300


async def test_resources_are_read_over_http(mode):
    async with gateway(**SMALL) as front, Client(f"{front.url}/mcp", mode=mode) as client:
        result = (await client.call_tool("rerank", RANKING)).structured_content
        assert len(await pages(client, result["resource"])) == 50
        assert (await read(client, "sie://models/toy"))["name"] == "toy"
        # Files are off, unless folders are named.
        assert "no access to files" in await refusal(client, "sie://taxonomies/own.txt/Tools")
