"""What the conformance scenarios look for, on our own server: tools, resources and prompts.

The tools go the way of the product's: through `make_tool`, the registry and `SieServer`.
"""

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.types import ImageContent, InputRequiredResult

from sie_mcp.client import EngineClient
from sie_mcp.config import Config
from sie_mcp.gateway import app as gateway_app
from sie_mcp.gateway import server as gateway_server
from sie_mcp.gateway.server import SieServer
from sie_mcp.tools.context import ToolCall
from sie_mcp.tools.schema import make_tool
from tests.conformance.asking_tools import ASKING_TOOLS, answered, form
from tests.conformance.content_tools import CONTENT_TOOLS, PNG, SCHEMA_2020_12, embedded
from tests.scripted_worker import ScriptedWorker
from tests.servers import serving

_choose_tools, _build_server = gateway_server.choose_tools, gateway_server.build_server


@asynccontextmanager
async def serving_scenarios() -> AsyncIterator[str]:
    """Serve the product's HTTP front, with what the scenarios call for; yield its MCP URL."""
    async with ScriptedWorker().running() as worker_url:
        with (
            mock.patch.object(gateway_server, "choose_tools", choose_tools),
            mock.patch.object(gateway_app, "build_server", build_server),
        ):
            app = gateway_app.build_app(Config(worker_url=worker_url), files_allowed=False)
        async with serving(app) as url:
            yield f"{url}{gateway_app.MCP_PATH}"


def choose_tools(names: Sequence[str]) -> list[Tool]:
    """Return the product's choice, then the scenarios' tools."""
    made = [make_tool(one, title=one.__name__) for one in (*CONTENT_TOOLS, *ASKING_TOOLS)]
    for tool in made:
        if tool.name == "json_schema_2020_12_tool":
            tool.parameters = SCHEMA_2020_12
    return [*_choose_tools(names), *made]


def build_server(client: EngineClient, config: Config, *, files_allowed: bool) -> SieServer:
    """Build the product's server and add the scenarios' resources and prompts."""
    server = _build_server(client, config, files_allowed=files_allowed)
    _add_resources(server)
    for function in PROMPTS:
        server.add_prompt(Prompt.from_function(function))
    return server


def _add_resources(server: SieServer) -> None:
    @server.resource("test://static-text", description="A text.", mime_type="text/plain")
    async def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", description="A picture.", mime_type="image/png")
    async def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    async def template(id: str) -> str:
        """What belongs to an id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def test_simple_prompt() -> str:
    """Say something."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Repeat two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 # its name
    """Show a resource."""
    resource = embedded(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


def test_prompt_with_image() -> list[Any]:
    """Show a picture."""
    image = ImageContent(data=PNG, mime_type="image/png")
    return [UserMessage(image), UserMessage("Please analyze the image above.")]


async def test_input_required_result_prompt(ctx: ToolCall) -> str | InputRequiredResult:
    """Ask the user before there is a prompt."""
    if answered(ctx, "user_context"):
        return "A prompt in the context that the user gave."
    question = form("What context should the prompt use?", "context")
    return InputRequiredResult(input_requests={"user_context": question})


PROMPTS = (
    test_simple_prompt,
    test_prompt_with_arguments,
    test_prompt_with_embedded_resource,
    test_prompt_with_image,
    test_input_required_result_prompt,
)
