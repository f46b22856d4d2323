"""The one form of every tool's answer: a compact text block equal to the structured result.

Some clients show the model only the text, others only the structure: both must say everything.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import pydantic
from mcp.types import CallToolResult, TextContent

CHARS_PER_TOKEN = 4
RowT = TypeVar("RowT", bound=pydantic.BaseModel)


def reply(body: pydantic.BaseModel) -> CallToolResult:
    """Return the answer; fields that are None are left out."""
    return CallToolResult(
        content=[TextContent(text=body.model_dump_json(exclude_none=True))],
        structured_content=body.model_dump(mode="json", exclude_none=True),
    )


def count_tokens(text: str) -> int:
    """Estimate what an agent pays to read a text: four characters a token."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def fitting(rows: Sequence[RowT], max_tokens: int) -> tuple[list[RowT], int]:
    """Keep the first rows that fit; return them and how many were left out."""
    kept: list[RowT] = []
    left = max_tokens
    for row in rows:
        left -= count_tokens(row.model_dump_json(exclude_none=True)) + 1
        if left < 0 and kept:
            break
        kept.append(row)
    return kept, len(rows) - len(kept)


def short(score: float) -> float:
    """Round a score to what an agent can use: every digit is read again and again."""
    return round(float(score), 4)
