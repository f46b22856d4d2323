"""From a function to a tool as agents see it: a lean schema that refuses unknown arguments."""

import inspect
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations


def make_tool(
    function: Callable[..., Any],
    title: str,
    *,
    writes_files: bool = False,
    always_loaded: bool = False,
) -> Tool:
    """Build a tool; the function's docstring is its description.

    Args:
        function: Async, with annotated arguments and result.
        title: For people.
        writes_files: It can write a file when asked to: not a read-only tool.
        always_loaded: Clients that hide tools behind a search should show it.
    """
    tool = Tool.from_function(
        function,
        title=title,
        description=inspect.cleandoc(function.__doc__ or ""),
        annotations=ToolAnnotations(
            read_only_hint=not writes_files,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        meta={"anthropic/alwaysLoad": True} if always_loaded else None,
    )
    # Unknown arguments would be dropped silently, and the model would never learn.
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = {**lean(tool.parameters), "additionalProperties": False}
    if tool.fn_metadata.output_schema:
        tool.fn_metadata.output_schema = lean(tool.fn_metadata.output_schema)
    return tool


def lean(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop titles and put definitions where they are used: fewer tokens, fewer client bugs."""
    definitions = schema.get("$defs", {})
    cleaned: dict[str, Any] = _clean(
        {key: value for key, value in schema.items() if key != "$defs"}, definitions
    )
    return cleaned


def _clean(node: Any, definitions: dict[str, Any], *, holds_names: bool = False) -> Any:
    if isinstance(node, list):
        return [_clean(one, definitions) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node and not holds_names:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _clean({**target, **rest}, definitions)
    return {
        key: _clean(value, definitions, holds_names=key == "properties" and not holds_names)
        for key, value in node.items()
        if holds_names or key != "title"
    }
