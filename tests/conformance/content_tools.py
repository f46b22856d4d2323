"""Tools that the conformance scenarios call for what comes back: texts, pictures, news, errors."""

import warnings
from typing import Annotated

from mcp import MCPError
from mcp.types import (
    INVALID_REQUEST,
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolCall

# The smallest of their kind: a PNG of one pixel, a WAV of one silent sample.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
# What JSON Schema 2020-12 can say and our own tools never do; it must reach the client whole.
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def said(*blocks: ContentBlock | str) -> CallToolResult:
    """Return a result of these blocks."""
    texts = [TextContent(text=one) if isinstance(one, str) else one for one in blocks]
    return CallToolResult(content=texts)


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    """Return a text as a resource within a message."""
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


async def test_simple_text() -> CallToolResult:
    """Answer with a text."""
    return said("This is a simple text response for testing.")


async def test_image_content() -> CallToolResult:
    """Answer with a picture."""
    return said(ImageContent(data=PNG, mime_type="image/png"))


async def test_audio_content() -> CallToolResult:
    """Answer with a sound."""
    return said(AudioContent(data=WAV, mime_type="audio/wav"))


async def test_embedded_resource() -> CallToolResult:
    """Answer with a resource."""
    return said(embedded("test://embedded-resource", "This is an embedded resource content."))


async def test_multiple_content_types() -> CallToolResult:
    """Answer with a text, a picture and a resource."""
    data = '{"test":"data","value":123}'
    return said(
        "Multiple content types test:",
        ImageContent(data=PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", data, "application/json"),
    )


async def test_tool_with_logging(ctx: ToolCall) -> CallToolResult:
    """Say three things on the way, then answer."""
    for step in ("started", "is processing data", "completed"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the older era only, and deprecated in the SDK
            await ctx.info(f"Tool execution {step}")
    return said("The tool with logging is done.")


async def test_logging_tool(ctx: ToolCall) -> CallToolResult:
    """Say something that only a client who asked for logs may hear."""
    return await test_tool_with_logging(ctx)


async def test_tool_with_progress(ctx: ToolCall) -> CallToolResult:
    """Report three steps, then answer."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
    return said("The tool with progress is done.")


async def test_error_handling() -> CallToolResult:
    """Fail as a tool of ours does."""
    raise InvalidInput("This tool intentionally returns an error for testing")


async def test_reconnection(ctx: ToolCall) -> CallToolResult:
    """Close the stream of the answer before it is given."""
    await ctx.close_sse_stream()
    return said("Reconnection test completed.")


async def test_custom_headers(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
) -> CallToolResult:
    """Answer with an argument that a header of the request repeats."""
    return said(f"The region is {region}.")


async def json_schema_2020_12_tool() -> CallToolResult:
    """Be listed with a schema of every kind of keyword."""
    raise MCPError(code=INVALID_REQUEST, message="this tool is only listed")


CONTENT_TOOLS = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_logging_tool,
    test_tool_with_progress,
    test_error_handling,
    test_reconnection,
    test_custom_headers,
    json_schema_2020_12_tool,
)
