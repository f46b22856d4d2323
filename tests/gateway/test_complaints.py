"""What users of other servers complain of: waits without end, false trails, floods of text.

Each complaint has its test, here or where its subject is:

| complaint | test |
|---|---|
| models load before the first answer; tools absent | `e2e/test_stdio.py`: listed without torch |
| a model loads for ever, in silence | `test_app.py`: progress of a load arrives while it lasts |
| two sessions load a model twice | `e2e/test_local_worker.py`: three sessions share one worker |
| connected, and no tools | `e2e/test_around_tools.py`: the tools that the flag names |
| a bar, colours or a download on stdout | `e2e/test_stdio.py`: stdout carries the protocol only |
| one answer of 64,000 tokens | `tools/test_result_limits.py`: every tool, three limits |
| sessions stick to a replica | `test_replicas.py`; `e2e/test_http.py`: any gateway answers |
| a cancelled call runs on | `e2e/test_cancellation.py`: every transport, both ways |
| progress comes late or never | `test_paced_progress.py`: every tool is heard of |
| progress is cut | here |
| a key given leads to a search for a login | here |
| a 401 names no metadata | `access/test_both_doors.py` |
| a probe of the era gets no answer, or ends the pipe | here; `e2e/test_stdio.py`: discovers first |
| only one of several blocks is read; structure and text differ | here |
| a schema that a client refuses; names too long | here; `e2e/test_inspector.py`: --strict |
| an unknown argument is dropped | `tools/test_schemas.py` |
"""

import json

import pytest
from mcp import Client
from mcp.types import TextContent

from sie_mcp.errors import ModelLoading
from sie_mcp.gateway.instructions import MAX_CHARS
from sie_mcp.tools.progress import MAX_MESSAGE_CHARS
from sie_mcp.tools.registry import ALL
from tests.gateway.front import CALL, gateway, raw_call
from tests.gateway.in_memory import session
from tests.gateway.test_paced_progress import ARGUMENTS, fill
from tests.scripted_worker import ScriptedWorker, fails_with

pytestmark = pytest.mark.anyio
both_eras = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
# What clients look for at an address that asks for no key, or gets one that they were given.
OAUTH = [
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
]
# The longest name of a server and its tool that each known client takes.
MAX_NAME_CHARS = 60
PREFIX = "mcp__plugin_sie-mcp_sie__"


@both_eras
@pytest.mark.parametrize("method", ["no/such", "tasks/list", "logging/nonsense"])
async def test_an_unknown_method_is_refused_at_once_with_its_code(front, version, method):
    request = raw_call(version)
    request["json"]["method"] = request["headers"]["Mcp-Method"] = method
    del request["headers"]["Mcp-Name"]
    answer = await front.http.post("/mcp", **request)
    assert '"code":-32601' in answer.text.replace(": ", ":")


@pytest.mark.parametrize("path", OAUTH)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer given"}])
async def test_a_search_for_a_login_finds_that_there_is_none(front, path, headers):
    assert (await front.http.get(path, headers=headers)).status_code == 404
    assert (await front.http.post("/register", json={}, headers=headers)).status_code == 404


async def test_a_key_that_nobody_asked_for_is_no_reason_to_refuse(front):
    request = raw_call("2025-11-25")
    request["headers"]["Authorization"] = "Bearer given"
    assert (await front.http.post("/mcp", **request)).status_code == 200


async def test_a_long_message_of_progress_is_cut_to_what_clients_show():
    heard: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    # Long enough for a busy machine.
    async with gateway(load_wait_s=60) as front, Client(f"{front.url}/mcp") as client:
        front.worker.script = [fails_with(ModelLoading("loading " + "a/very/long/name " * 60))]
        assert not (await client.call_tool("rerank", CALL, progress_callback=progress)).is_error
    assert heard
    assert max(map(len, heard)) <= MAX_MESSAGE_CHARS


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_names_and_texts_are_no_longer_than_clients_take(mode):
    async with session(ScriptedWorker(), mode) as client:
        tools = (await client.list_tools()).tools
        assert tools
        assert len(client.instructions or "") <= MAX_CHARS
    assert max(len(PREFIX + tool.name) for tool in tools) <= MAX_NAME_CHARS
    assert max(len(tool.description or "") for tool in tools) <= MAX_CHARS


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answer_is_one_block_and_the_structure_says_the_same(mode, tmp_path):
    fill(tmp_path)
    settings = {"tools": (ALL,), "allow": (tmp_path,), "cache_dir": tmp_path / "cache"}
    async with session(ScriptedWorker(), mode, **settings) as client:
        for name, arguments in ARGUMENTS.items():
            result = await client.call_tool(name, arguments)
            (block,) = result.content
            assert isinstance(block, TextContent)
            if not result.is_error:
                assert json.loads(block.text) == result.structured_content, name
                assert "\n" not in block.text, f"{name}: indented JSON is twice as long"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_no_schema_begins_with_a_choice_or_takes_anything(mode):
    async with session(ScriptedWorker(), mode) as client:
        schemas = [tool.input_schema for tool in (await client.list_tools()).tools]
    for schema in schemas:
        assert schema["type"] == "object"
        assert not schema.keys() & {"oneOf", "anyOf", "allOf", "not"}
        assert all(value not in ({}, True) for value in schema["properties"].values())
