"""What a tool's answer cost: what the worker ran for it, and what an agent reads of it."""

from typing import Any

from mcp.types import CallToolResult, TextContent

from sie_mcp import metrics, tracing
from sie_mcp.usage import Usage

CHARS_PER_TOKEN = 4


def count_answer(tool: str, result: Any, usage: Usage) -> None:
    """Count one answer; `tool` is a name that is known, or "other"."""
    blocks = result.content if isinstance(result, CallToolResult) else []
    num_chars = sum(len(one.text) for one in blocks if isinstance(one, TextContent))
    answer_tokens = num_chars // CHARS_PER_TOKEN
    metrics.TOOL_ITEMS.labels(tool).inc(usage.items)
    metrics.TOOL_TOKENS.labels(tool).inc(usage.tokens)
    metrics.TOOL_ANSWER_TOKENS.labels(tool).observe(answer_tokens)
    tracing.annotate(items=usage.items, tokens=usage.tokens, answer_tokens=answer_tokens)
