"""What a tool hands back: one compact text block equal to the structured result, within a budget.

Clients differ in which of the two they show a model, so both hold everything.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import pydantic
from mcp.types import CallToolResult, TextContent
from pydantic import AfterValidator, ConfigDict, PlainSerializer, WithJsonSchema

SCORE_DIGITS = 4
# English text has about four characters a token; in UTF-8 bytes the rule holds for other
# scripts too, where a token is one or two characters.
BYTES_PER_TOKEN = 4

# Of the groups that texts fall into the largest are counted one by one: none that is smaller than
# this share of all, and all in this share of what a result may cost.
MIN_SHARE = 0.01
COUNTS_SHARE = 0.25
_COUNT_TOKENS = 3


def _rounded(score: float) -> float:
    return round(float(score), SCORE_DIGITS) + 0.0  # + 0.0: no minus zero


def _shortened(score: float) -> float:
    return float(f"{score:.2g}") + 0.0


def _without_point(score: float) -> int | float:
    return int(score) if score.is_integer() else score


# A score as an agent reads it.
RoundedScore = Annotated[float, AfterValidator(_rounded)]
# A score that says no more than an order: two digits are enough, and whole numbers have no point.
ShortScore = Annotated[
    float,
    AfterValidator(_shortened),
    PlainSerializer(_without_point),
    WithJsonSchema({"type": "number"}),
]


class Result(pydantic.BaseModel):
    """Base of everything in a result; a field that is None is not sent."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class LimitedResult(Result):
    """A result with lists of entries; `omitted`: how many are left out, as they did not fit."""

    omitted: int | None = None


def compact(result: Result, max_tokens: int | None = None) -> CallToolResult:
    """Build the answer from a result; a `LimitedResult` is shortened to fit a limit.

    Tools leave room for what stands around their lists; this is for what they did not foresee.
    """
    if isinstance(result, LimitedResult) and max_tokens is not None:
        shorten(result, max_tokens)
    data = result.model_dump(mode="json", exclude_none=True)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(text=text)], structured_content=data)


def shorten(result: LimitedResult, max_tokens: int) -> None:
    """Take entries off the end of the longest list until all fits, and count them as omitted."""
    while (over := result_tokens(result) - max_tokens) > 0:
        entries = max(_lists(result), key=len, default=None)
        if not entries:
            return
        while entries and over > 0:
            over -= result_tokens(entries.pop())
            result.omitted = (result.omitted or 0) + 1


def _lists(result: LimitedResult) -> list[list[Result]]:
    """Return the lists of entries, not those of names or numbers."""
    values = (getattr(result, name) for name in type(result).model_fields)
    return [
        value
        for value in values
        if isinstance(value, list) and value and isinstance(value[0], Result)
    ]


def plain(text: str) -> CallToolResult:
    """Build the answer of a tool without a structure."""
    return CallToolResult(content=[TextContent(text=text)])


def estimate_tokens(text: str) -> int:
    """Guess how many tokens an agent reads in a text."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def result_tokens(result: Result) -> int:
    """Guess how many tokens an agent reads in a result, or in a part of one."""
    return estimate_tokens(result.model_dump_json(exclude_none=True))


def num_fitting(entries: Sequence[Result], max_tokens: int) -> int:
    """Return how many of the first entries fit together."""
    used = 0
    for number, entry in enumerate(entries):
        used += result_tokens(entry) + 1
        if used > max_tokens:
            return number
    return len(entries)


def shown_counts(
    counts: Mapping[str, int], limit: int, max_tokens: int
) -> tuple[dict[str, int], int]:
    """Return the counts that say something, largest first, at most `limit`; and the others' sum.

    Those of what holds less than `MIN_SHARE` of all are not worth reading one by one.
    """
    least = sum(counts.values()) * MIN_SHARE
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    shown: dict[str, int] = {}
    left = max_tokens * COUNTS_SHARE
    for name, count in most[:limit]:
        left -= estimate_tokens(name) + _COUNT_TOKENS
        if count < least or left < 0:
            break
        shown[name] = count
    return shown, sum(counts.values()) - sum(shown.values())


def or_none(count: int) -> int | None:
    """Return a count, or None for zero, so that it is not sent."""
    return count or None
