"""Texts for wrong arguments that let a model correct its call: which one, why, what would work."""

import difflib
from typing import Any

from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

MAX_EXPLAINED = 5


def explain_arguments(tool: Tool | None, name: str, cause: BaseException | None) -> str | None:
    """Return the text for a validation error; None for anything else."""
    if not isinstance(cause, ValidationError) or tool is None:
        return None
    known = list(tool.parameters.get("properties", {}))
    details = cause.errors(include_url=False, include_context=False)
    parts = [_explain_one(detail, known) for detail in details[:MAX_EXPLAINED]]
    problems = "; ".join(dict.fromkeys(parts))
    return f"Invalid arguments for {name}. {problems}. Fix these and call again."


def _explain_one(detail: Any, known: list[str]) -> str:
    where = ".".join(str(one) for one in detail["loc"]) or "arguments"
    if detail["type"] == "extra_forbidden":
        top = str(detail["loc"][-1])
        close = difflib.get_close_matches(top, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        return f"{where} is not an argument; {hint}"
    if detail["type"] == "list_type" and isinstance(detail.get("input"), str):
        return f'{where} must be a JSON array such as ["a", "b"], not a string'
    if detail["type"] == "string_unicode":
        return f"{where} holds half of a surrogate pair; send valid Unicode text"
    return f"{where}: {detail['msg']}"
