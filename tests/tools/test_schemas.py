"""What agents and clients see of the tools before they call one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sie_mcp.tools.registry import TOOLSETS, build_tools, choose_tools
from sie_mcp.tools.schema import routed_by_model
from tests.tools.conftest import Toolbox

pytestmark = pytest.mark.anyio
NAMES = [
    "rerank",
    "filter_context",
    "search_files",
    "classify_taxonomy",
    "review_uncertain",
    "store_corrections",
    "explain",
    "map_taxonomy",
    "classify",
    "extract_entities",
    "extract_relations",
    "extract_structured",
    "detect_pii",
    "redact",
    "embed",
    "find_similar",
    "deduplicate",
    "cluster",
    "list_models",
    "search_images",
    "classify_images",
    "detect_objects",
    "describe_image",
]
MAX_DESCRIPTION = 2_048


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema inside a schema."""
    if isinstance(schema, list):
        for child in schema:
            yield from nodes(child)
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            yield from nodes(list(value.values()) if key == "properties" else value)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_are_listed_in_the_same_order_in_both_eras(toolbox: Toolbox, mode: str) -> None:
    toolbox.mode = mode
    async with toolbox.client() as first, toolbox.client() as second:
        listed = await first.list_tools()
        again = await second.list_tools()
    assert [tool.name for tool in listed.tools] == NAMES
    assert listed.model_dump_json() == again.model_dump_json()


@pytest.mark.parametrize("tool", build_tools(), ids=NAMES)
async def test_every_schema_is_tidy(tool: Any) -> None:
    assert tool.parameters["additionalProperties"] is False
    promised = [tool.output_schema] if tool.name != "filter_context" else []
    for schema in (tool.parameters, *promised):
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$defs"} & schema.keys()
        for node in nodes(schema):
            assert node, "an empty schema breaks clients"
            assert "$ref" not in node
            assert not isinstance(node.get("title"), str)
            assert {"type": "null"} not in node.get("anyOf", [])


async def test_a_tool_that_can_answer_in_prose_promises_no_structure(toolbox: Toolbox) -> None:
    async with toolbox.client() as client:
        listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed if tool.output_schema is None] == ["filter_context"]


@pytest.mark.parametrize("tool", build_tools(), ids=NAMES)
async def test_every_argument_of_a_tool_says_what_it_is(tool: Any) -> None:
    for name, field in tool.parameters["properties"].items():
        assert field.get("description") or "enum" in field, name


@pytest.mark.parametrize("tool", build_tools(), ids=NAMES)
async def test_every_description_stands_alone_and_is_short_enough(tool: Any) -> None:
    first, _, rest = tool.description.partition("\n\n")
    assert first.endswith(".") and len(first) < 120
    assert "Use it" in rest and "Returns" in rest
    assert len(tool.description) < MAX_DESCRIPTION
    assert "\n    " not in tool.description


async def test_annotations_say_which_tools_can_write_a_file() -> None:
    hints = {tool.name: tool.annotations for tool in build_tools()}
    can_write = {name for name, hint in hints.items() if hint and not hint.read_only_hint}
    assert can_write == {
        "classify",
        "classify_taxonomy",
        "cluster",
        "deduplicate",
        "detect_pii",
        "embed",
        "extract_entities",
        "extract_relations",
        "extract_structured",
        "map_taxonomy",
        "redact",
        "classify_images",
        "detect_objects",
        "describe_image",
        "rerank",
        "store_corrections",
    }
    for hint in hints.values():
        assert hint is not None
        assert hint.idempotent_hint and not hint.destructive_hint and not hint.open_world_hint


async def test_two_tools_are_loaded_without_a_search(toolbox: Toolbox) -> None:
    async with toolbox.client() as client:
        listed = (await client.list_tools()).tools
    loaded = {tool.name for tool in listed if (tool.meta or {}).get("anthropic/alwaysLoad")}
    assert loaded == {"rerank", "classify_taxonomy"}


async def test_the_standard_tools_together_cost_an_agent_less_than_3500_tokens() -> None:
    entries = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in choose_tools(["standard"])
    ]
    assert sum(len(json.dumps(entry)) for entry in entries) / 4 < 3_500


@pytest.mark.parametrize("name", ["find_similar", "deduplicate", "cluster"])
async def test_a_tool_beside_the_standard_ones_costs_less_than_450_tokens(name: str) -> None:
    (tool,) = choose_tools([name])
    assert (len(tool.description) + len(json.dumps(tool.parameters))) / 4 <= 450


@pytest.mark.parametrize("tool", build_tools(), ids=NAMES)
async def test_the_arguments_of_a_tool_cost_at_most_450_tokens(tool: Any) -> None:
    assert len(json.dumps(tool.parameters)) / 4 <= 450
    if tool.name not in TOOLSETS["standard"]:
        assert (len(tool.description) + len(json.dumps(tool.parameters))) / 4 <= 450


@pytest.mark.parametrize("tool", build_tools(), ids=NAMES)
async def test_every_tool_can_be_cancelled(tool: Any) -> None:
    """One that is no coroutine would run on in its thread."""
    assert tool.is_async


async def test_an_unknown_argument_is_refused_by_name(toolbox: Toolbox) -> None:
    text = await toolbox.error("rerank", query="a", documents=["b"], topk=3)
    assert "topk" in text


async def test_null_for_an_optional_argument_means_that_it_was_left_out(toolbox: Toolbox) -> None:
    plain = await toolbox.call("rerank", query="a", documents=["b"])
    nulls = {"path": None, "columns": None, "top_k": None, "min_score": None, "model": None}
    assert await toolbox.call("rerank", query="a", documents=["b"], **nulls) == plain


async def test_null_for_a_required_argument_is_refused(toolbox: Toolbox) -> None:
    assert "query" in await toolbox.error("rerank", query=None, documents=["b"])


@pytest.mark.parametrize("tool", build_tools(), ids=NAMES)
async def test_no_tool_costs_tokens_for_what_agents_never_come_near(tool: Any) -> None:
    sizes = {"minLength", "maxLength", "minItems", "maxItems"}
    assert not any(sizes & node.keys() for node in nodes(tool.parameters))
    assert all("\n" not in part for part in tool.description.split("\n\n"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"documents": ["a"] * 1_001}, "1,001 items; the limit is 1,000"),
        ({"path": "a.csv", "columns": ["a"] * 21}, "at most 20 items"),
        ({"documents": [{"text": "a", "titel": "b"}]}, "documents.0.titel"),
        ({"documents": ["a"], "model": ""}, "at least 1 character"),
    ],
)
async def test_what_a_schema_leaves_out_the_call_still_checks(
    toolbox: Toolbox, arguments: dict[str, Any], says: str
) -> None:
    assert says in await toolbox.error("rerank", query="q", **arguments)


def test_what_one_server_changes_of_a_schema_stays_with_it():
    (changed,), (plain,) = choose_tools(["rerank"]), choose_tools(["rerank"])
    routed_by_model(changed)
    assert "x-mcp-header" in changed.parameters["properties"]["model"]
    assert "x-mcp-header" not in plain.parameters["properties"]["model"]
    (later,) = choose_tools(["rerank"])
    assert later.parameters == plain.parameters
