"""Which tools a server offers, what they cost, and what its instructions say of them."""

import json
import re
from pathlib import Path

import pytest
from mcp import Client

from sie_mcp.config import load_config
from sie_mcp.errors import SettingError
from sie_mcp.gateway.instructions import MAX_CHARS, instructions_for
from sie_mcp.gateway.prompts import RECIPES
from sie_mcp.gateway.resources import MODEL, MODELS, NODE, RESULT
from sie_mcp.gateway.server import build_server
from sie_mcp.tools.registry import ALL, TOOLSETS, build_tools, choose_tools
from tests.gateway.front import gateway
from tests.gateway.in_memory import CALL, TOOLS, refusal, session

pytestmark = pytest.mark.anyio


def cost(*names: str) -> float:
    """Estimate the tokens that a list of tools costs an agent."""
    entries = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in choose_tools(names)
    ]
    return sum(len(json.dumps(entry)) for entry in entries) / 4


def test_the_core_costs_about_a_third_of_all_tools():
    assert cost("standard") < 3_500
    assert cost("core") < 1_100


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("standard", list(TOOLSETS["standard"])),
        ("all", [tool.name for tool in build_tools()]),
        ("core", list(TOOLSETS["core"])),
        ("embed, rerank", ["rerank", "embed"]),
        ("list_models,core,rerank", ["rerank", "filter_context", "list_models"]),
    ],
)
def test_tools_come_in_one_order_whatever_the_settings_order(setting, names):
    assert [tool.name for tool in choose_tools(load_config(tools=setting).tools)] == names


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("rank", "no tool or toolset 'rank'; did you mean rerank?"),
        ("zzz", "known: all, core, standard"),
        (" , ", "tools is empty; name some of: all, core, standard"),
    ],
)
def test_an_unknown_tool_stops_the_start(setting, says):
    with pytest.raises(SettingError, match="tools") as refused:
        build_server(None, load_config(tools=setting), files_allowed=True)  # type: ignore[arg-type]
    assert says in str(refused.value)


def test_no_client_cuts_the_instructions_off_whatever_tools_there_are():
    text = instructions_for([tool.name for tool in build_tools()])
    assert len(text) < MAX_CHARS
    assert text.endswith("is no failure.\n")


@pytest.mark.parametrize("names", [TOOLS, ["rerank", "filter_context"], ["embed"]])
def test_the_instructions_name_the_tools_there_are_and_no_other(names):
    text = instructions_for(names)
    assert len(text) < MAX_CHARS
    assert [name for name in TOOLS if f"`{name}`" in text] == names


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("setting", "limit"), [("standard", 5_700), ("core", 1_400)])
async def test_what_programs_read_of_a_list_is_bounded_too(worker, mode, setting, limit):
    async with session(worker, mode, tools=(setting,)) as client:
        listed = await client.list_tools()
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) / 4 < limit


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_tool_that_is_not_offered_cannot_be_called(worker, mode):
    async with session(worker, mode, tools=("core",)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLSETS["core"])
        assert not (await client.call_tool("rerank", CALL)).is_error
        text = await refusal(client, "embed", texts=["a", "b"])
        assert text == "There is no tool 'embed'; there are: rerank, filter_context."


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_over_http_has_toolsets_too(mode):
    async with (
        gateway(tools=("core",)) as front,
        Client(f"{front.url}/mcp", mode=mode) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLSETS["core"])
        assert "`embed`" not in (client.instructions or "")


def test_the_documentation_names_every_toolset_resource_and_prompt():
    text = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    for tools in TOOLSETS.values():
        assert ", ".join(f"`{name}`" for name in tools) in text
    for recipe in RECIPES:
        tools = ", ".join(f"`{name}`" for name in recipe.tools)
        (row,) = [line for line in text.split("\n") if f"| `{recipe.function.__name__}` |" in line]
        assert row.endswith(f"| {tools} |")
    for uri in (MODELS, MODEL, NODE, RESULT):
        assert f"`{uri.replace('+', '').removesuffix('{?offset}')}`" in text


def test_the_documentation_knows_what_every_toolset_costs():
    text = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    for name in (*TOOLSETS, ALL):
        (told,) = re.findall(rf"^\| `{name}`[^|]*\|[^|]*\| about ([\d,]+) \|$", text, re.MULTILINE)
        assert abs(int(told.replace(",", "")) - cost(name)) <= 50, (name, cost(name))
