"""Recipes: offered where their tools are, filled in, and the tools named in the right order."""

import re

import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS

from sie_mcp.gateway.prompts import RECIPES
from tests.gateway.front import gateway
from tests.gateway.in_memory import STANDARD, broken, session

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]

ARGUMENTS = {
    "triage_folder": {"path": "docs/**/*.md", "question": "What's due?"},
    "classify_catalogue": {"path": "products.csv", "output_path": "out.jsonl"},
    "build_knowledge_graph": {"path": "*.pdf", "output_path": "out.csv"},
    "find_answer": {"path": "law.txt", "question": 'Who may "appeal"?'},
    "correct_catalogue": {"path": "a.csv", "output_path": "out.csv", "examples": "seen.csv"},
}

OFFERED = [one.function.__name__ for one in RECIPES if set(one.tools) <= set(STANDARD)]


async def text_of(client: Client, name: str, **arguments: str) -> str:
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    return message.content.text


async def test_prompts_are_listed_with_titles_and_described_arguments(mode):
    async with broken(mode, AssertionError("no worker may be asked for")) as client:
        listed = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == OFFERED == list(ARGUMENTS)[:4]
        for prompt in listed:
            assert prompt.title and prompt.description
            assert all(argument.description for argument in prompt.arguments)
            required = {argument.name for argument in prompt.arguments if argument.required}
            assert required == set(ARGUMENTS[prompt.name])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.function.__name__)
async def test_a_prompt_names_its_tools_in_the_order_of_their_use(worker, mode, recipe):
    name = recipe.function.__name__
    async with session(worker, mode, tools=("standard", "taxonomy")) as client:
        text = await text_of(client, name, **ARGUMENTS[name])
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    named = [one for one in re.findall(r"`(\w+)`", text) if one in tools]
    assert tuple(dict.fromkeys(named)) == recipe.tools
    for value in ARGUMENTS[name].values():
        assert value in text
    # What is written as an argument is one of a tool named.
    known = {one for tool in recipe.tools for one in tools[tool].input_schema["properties"]}
    assert set(re.findall(r"\b(\w+)=", text)) <= known
    assert len(text) < 2_500


async def test_optional_arguments_change_the_recipe(worker, mode):
    async with session(worker, mode) as client:
        told = ARGUMENTS["build_knowledge_graph"] | {"kinds": "gene, drug", "model": "org/ner"}
        text = await text_of(client, "build_knowledge_graph", **told)
        assert "labels='gene, drug'" in text
        assert "use the model 'org/ner'" in text


@pytest.mark.parametrize("blank", ["", "  "])
async def test_a_blank_argument_is_as_if_it_were_not_given(worker, mode, blank):
    async with session(worker, mode, tools=("standard", "taxonomy")) as client:
        for name, told in ARGUMENTS.items():
            listed = (await client.list_prompts()).prompts
            (prompt,) = (prompt for prompt in listed if prompt.name == name)
            optional = {one.name: blank for one in prompt.arguments if not one.required}
            assert await text_of(client, name, **told | optional) == await text_of(
                client, name, **told
            )


async def test_a_prompt_needs_all_of_its_tools(worker, mode):
    async with session(worker, mode, tools=("core",)) as client:
        listed = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == ["triage_folder", "find_answer"]
    async with session(worker, mode, tools=("list_models",)) as client:
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="there are: none"):
            await client.get_prompt("find_answer", {})


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("find", {}, "no prompt 'find'; there are: triage_folder, classify_catalogue"),
        ("find_answer", {"path": "a.txt"}, "needs question; its arguments: path, question"),
        ("find_answer", {"path": " ", "question": "q"}, "find_answer needs path"),
        ("find_answer", ARGUMENTS["find_answer"] | {"top": "3"}, "no argument 'top'"),
        ("find_answer", ARGUMENTS["find_answer"] | {"top": ""}, "no argument 'top'"),
    ],
)
async def test_a_wrong_request_is_refused_with_what_would_work(worker, mode, name, arguments, says):
    async with session(worker, mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt(name, arguments)
    assert refused.value.error.code == INVALID_PARAMS
    assert says in refused.value.error.message


async def test_prompts_are_there_over_http(mode):
    async with gateway() as front, Client(f"{front.url}/mcp", mode=mode) as client:
        assert len((await client.list_prompts()).prompts) == len(OFFERED)
        assert "`filter_context`" in await text_of(
            client, "find_answer", **ARGUMENTS["find_answer"]
        )
