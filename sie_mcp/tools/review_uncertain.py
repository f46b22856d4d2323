"""The tool `review_uncertain`: the least sure rows of a classified file, a page at a time."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Annotated, Any

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.result import Result, RoundedScore, compact, num_fitting, or_none
from sie_mcp.tools.sources import MAX_ROWS, read_text

ENDINGS = (".jsonl", ".csv")
_CELL_JOIN = " | "


class UnsureRow(Result):
    """A row of the file: what it is, the path it has and the ones it could have."""

    index: int
    id: str | None = None
    source: str | None = None
    text: str | None = None
    path: str
    confidence: RoundedScore
    alternatives: list[str] | None = None


class ReviewResult(Result):
    """A page of rows, least sure first; `next_offset` is where the next page starts."""

    count: int
    num_below: int | None = None
    results: list[UnsureRow]
    next_offset: int | None = None


async def review_uncertain(
    ctx: ToolCall,
    path: Annotated[str, Field(description="What classify_taxonomy wrote: .jsonl or .csv.")],
    offset: Annotated[int, Field(ge=0, description="The next_offset of the page before.")] = 0,
    limit: Annotated[int, Field(ge=1, le=100, description="Rows on a page.")] = 20,
    max_confidence: Annotated[
        float, Field(ge=0, le=1, description="Leave out rows that are surer.")
    ] = 1.0,
) -> Annotated[CallToolResult, ReviewResult]:
    """Page through the rows of a classified file that are least sure.

    Use it after classify_taxonomy with an output_path, to check what needs a second look. Put the
    right categories of what you decided into a file (columns text, category) and give it to
    classify_taxonomy as `examples`: the next run does better.

    Returns {index, id?, text, path, confidence, alternatives} by rising confidence, and next_offset
    while there are more. Limit: 100 rows a page, 10,000 in the file.
    """
    context = tool_context(ctx)
    file = context.folders.to_read(path, ENDINGS, argument="path")
    await context.progress(0, 1, f"reading {file.name}")
    rows = await anyio.to_thread.run_sync(_read, file, context.config.max_file_bytes)
    below = sorted(
        (row for row in rows if row.confidence <= max_confidence),
        key=lambda row: (row.confidence, row.index),
    )
    page = below[offset : offset + limit]
    # At least one row, so that paging always gets on.
    shown = page[: max(1, num_fitting(page, context.list_tokens))]
    end = offset + len(shown)
    return compact(
        ReviewResult(
            count=len(rows),
            num_below=or_none(len(below)),
            results=shown,
            next_offset=end if end < len(below) else None,
        )
    )


def _read(file: AllowedPath, max_bytes: int) -> list[UnsureRow]:
    text = read_text(file, max_bytes)
    if file.ending == ".csv":
        entries: list[Any] = list(csv.DictReader(io.StringIO(text, newline="")))
    else:
        entries = [
            _parsed(line, n, file.name) for n, line in enumerate(text.split("\n"), 1) if line
        ]
    if len(entries) > MAX_ROWS:
        raise InvalidInput(f"{file.name} has {len(entries):,} rows; the limit is {MAX_ROWS:,}")
    return [_row(entry, number, file.name) for number, entry in enumerate(entries, 1)]


def _parsed(line: str, number: int, name: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} line {number} is not JSON: {error}") from error


def _row(entry: Any, number: int, name: str) -> UnsureRow:
    try:
        return UnsureRow(
            index=int(entry["index"]),
            id=entry.get("id") or None,
            source=entry.get("source") or None,
            text=entry.get("text") or None,
            path=entry["path"],
            confidence=float(entry["confidence"]),
            alternatives=_paths(entry) or None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{name} row {number} is no row of a classified file; give the output_path of "
            "classify_taxonomy"
        ) from error


def _paths(entry: Mapping[str, Any]) -> list[str]:
    others = entry.get("alternatives") or []
    if isinstance(others, str):
        return others.split(_CELL_JOIN)
    return [other["path"] for other in others]
