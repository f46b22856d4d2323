"""From a typed function to an MCP tool whose schema agents and clients read well.

No titles, no references, no nullable unions; unknown arguments are refused, and null for an
optional argument means that it was left out. Knows no tool.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pydantic
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp.types import CallToolResult, ToolAnnotations

Schema = dict[str, Any]

# Sent with the tools that an agent should see without searching for them.
ALWAYS_LOAD = {"anthropic/alwaysLoad": True}
# Where a line of a paragraph ends says nothing, and costs an agent a token.
_LINE_END = re.compile(r"(?<=\S)\n(?=\S)")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems")


class StrictArguments(ArgModelBase):
    """What every tool's arguments share."""

    # NaN is below no bound and above none: it would pass each check, and every comparison fails.
    model_config = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, arguments: Any) -> Any:
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or name not in optional
        }


def make_tool(
    function: Callable[..., Awaitable[CallToolResult]],
    *,
    title: str,
    read_only: bool = True,
    always_load: bool = False,
) -> Tool:
    """Describe a function as a tool; its docstring is what agents read.

    `read_only` is False for a tool that can write a file. None of them overwrites or deletes
    anything, and a repeated call changes nothing more.
    """
    tool = Tool.from_function(
        function,
        title=title,
        description=_LINE_END.sub(" ", inspect.cleandoc(function.__doc__ or "")),
        annotations=ToolAnnotations(
            read_only_hint=read_only,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        meta=ALWAYS_LOAD if always_load else None,
    )
    metadata = tool.fn_metadata
    metadata.arg_model = pydantic.create_model(
        metadata.arg_model.__name__, __base__=(StrictArguments, metadata.arg_model)
    )
    schema = tidy(metadata.arg_model.model_json_schema(by_alias=True))
    tool.parameters = {**schema, "properties": _without_sizes(schema["properties"])}
    # A tool that also answers in prose promises no structure.
    metadata.output_schema = metadata.output_schema and tidy(metadata.output_schema)
    return tool


def routed_by_model(tool: Tool) -> Tool:
    """Have clients repeat `model` in the header Mcp-Param-Model, where the tool has one.

    From then on a client of the newer era that leaves it out is refused.
    """
    if "model" in tool.parameters["properties"]:
        tool.parameters["properties"]["model"]["x-mcp-header"] = "Model"
    return tool


def tidy(schema: Schema) -> Schema:
    """Shorten a schema without changing what it accepts, null apart.

    Titles and empty defaults go, definitions are put in place of their references, and a field
    that may be null is described as if it could only be left out.
    """
    tidied: Schema = _tidy(schema, schema.get("$defs", {}))
    tidied.pop("$defs", None)
    tidied.pop("description", None)
    return tidied


def _without_sizes(node: Any) -> Any:
    """Leave out how long texts and lists may be, and that objects in them are closed.

    Agents hardly come near: the limit that matters stands in the tool's description, and the call
    checks them all, with an error that says what would work.
    """
    if isinstance(node, list):
        return [_without_sizes(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_sizes(value)
        for key, value in node.items()
        if not (key in _SIZES and isinstance(value, int))
        and not (key == "additionalProperties" and value is False)
    }


def _tidy(node: Any, definitions: Schema) -> Any:
    if isinstance(node, list):
        return [_tidy(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    options = [option for option in node.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        node = {**options[0], **{key: value for key, value in node.items() if key != "anyOf"}}
    if "$ref" in node:
        node = {**definitions[node["$ref"].rpartition("/")[2]], "description": ""}
    return {
        key: _tidy_fields(value, definitions) if key == "properties" else _tidy(value, definitions)
        for key, value in node.items()
        if key != "title" and not (key in ("default", "description") and not value)
    }


def _tidy_fields(fields: Schema, definitions: Schema) -> Schema:
    return {name: _tidy(field, definitions) for name, field in fields.items()}
