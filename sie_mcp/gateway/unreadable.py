"""Lines of a pipe that the SDK cannot read and drops: whoever waits for an answer gets one.

The one kind that models make by themselves is half of a surrogate pair: an emoji cut in two. It is
JSON, but no text that could be handed on or written.
"""

import json
from typing import Any

import pydantic
from mcp.types import (
    INVALID_REQUEST,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    TextContent,
)

_REASON = "The call holds half of a surrogate pair, as of an emoji that was cut in two"
_ADVICE = f"{_REASON}. Send valid Unicode text and call again."


def answer_unreadable(error: pydantic.ValidationError) -> JSONRPCResponse | JSONRPCError | None:
    """Return the answer to a request that could not be read; None where nobody waits for one."""
    request = _request_of(error)
    if request is None:
        return None
    number = request["id"]
    if request.get("method") != "tools/call":
        return JSONRPCError(
            jsonrpc="2.0", id=number, error=ErrorData(code=INVALID_REQUEST, message=_ADVICE)
        )
    # A tool's error is what the model gets to see.
    result = CallToolResult(content=[TextContent(text=_ADVICE)], is_error=True)
    body = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return JSONRPCResponse(jsonrpc="2.0", id=number, result=body)


def _request_of(error: pydantic.ValidationError) -> dict[str, Any] | None:
    """Read a line more leniently; None if it is no request even so."""
    (first, *_) = error.errors(include_url=False, include_context=False)
    if first["type"] != "json_invalid" or not isinstance(first["input"], str | bytes):
        return None
    try:
        message = json.loads(first["input"])
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or "method" not in message:
        return None
    number = message.get("id")
    is_number = isinstance(number, int) and not isinstance(number, bool)
    is_name = isinstance(number, str) and number.isascii()
    return message if is_number or is_name else None
