"""Headers that an ingress can route by: they say what the body says, or the call is refused."""

import pytest
from mcp import Client

from tests.gateway.front import CALL, gateway, raw_call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_repeat_the_model_in_a_header_where_it_is_set(mode):
    async with (
        gateway(route_by_model=True) as front,
        Client(f"{front.url}/mcp", mode=mode) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        model = tools["rerank"].input_schema["properties"]["model"]
        assert model["x-mcp-header"] == "Model"
        assert not (await client.call_tool("rerank", CALL)).is_error
        without = {name: value for name, value in CALL.items() if name != "model"}
        assert not (await client.call_tool("rerank", without)).is_error
        assert not (await client.call_tool("list_models", {})).is_error


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Mcp-Param-Model": "toy"}, 200),
        ({"Mcp-Param-Model": "other"}, 400),
        ({}, 400),
        ({"Mcp-Param-Model": "toy", "Mcp-Name": "embed"}, 400),
        ({"Mcp-Param-Model": "toy", "Mcp-Method": "tools/list"}, 400),
    ],
)
async def test_a_header_that_says_something_else_than_the_body_is_refused(headers, status):
    async with gateway(route_by_model=True) as front:
        call = raw_call("2026-07-28")
        call["headers"] |= headers
        assert (await front.http.post("/mcp", **call)).status_code == status
        assert bool(front.worker.seen) == (status == 200)


async def test_nobody_has_to_where_it_is_not_set(front):
    assert (await front.http.post("/mcp", **raw_call("2026-07-28"))).status_code == 200
    async with Client(f"{front.url}/mcp") as client:
        for tool in (await client.list_tools()).tools:
            assert "x-mcp-header" not in str(tool.input_schema)
