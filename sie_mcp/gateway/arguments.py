"""Texts for wrong arguments that let a model correct its call: which one, why, what would work."""

import difflib
from typing import Any

from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

MAX_EXPLAINED = 5
# Names of arguments come from the caller too.
MAX_NAME_CHARS = 80


def explain_arguments(tool: Tool, cause: BaseException | None) -> str | None:
    """Return the text for a validation error; None for anything else."""
    if not isinstance(cause, ValidationError):
        return None
    known = list(tool.parameters.get("properties", {}))
    details = cause.errors(include_url=False, include_context=False)
    problems = list(dict.fromkeys(_explain_one(detail, known) for detail in details))
    text = "; ".join(problems[:MAX_EXPLAINED])
    if len(problems) > MAX_EXPLAINED:
        text += f"; and {len(problems) - MAX_EXPLAINED} more"
    return f"Invalid arguments for {tool.name}: {text}. Fix these and call again."


def _explain_one(detail: Any, known: list[str]) -> str:
    where = ".".join(str(one) for one in detail["loc"])[:MAX_NAME_CHARS] or "arguments"
    if detail["type"] == "extra_forbidden":
        return f"{where} is not an argument{_hint(detail['loc'], known)}"
    if detail["type"] == "list_type" and isinstance(detail.get("input"), str):
        return f'{where} must be a JSON array such as ["a", "b"], not a string'
    if detail["type"] == "string_unicode":
        return f"{where} holds half of a surrogate pair; send valid Unicode text"
    return f"{where}: {detail['msg'].removeprefix('Value error, ')}"


def _hint(place: tuple[Any, ...], known: list[str]) -> str:
    """Name the argument that was meant, else all; nothing for a field inside of an argument."""
    if len(place) > 1:
        return ""
    close = difflib.get_close_matches(str(place[0]), known, n=1, cutoff=0.4)
    return f" (did you mean {close[0]}?)" if close else f" (known: {', '.join(known)})"
