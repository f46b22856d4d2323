"""The tool `review_uncertain`: the least sure rows of a classified file, a page at a time."""

from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp.tools.categories.classified_file import ENDINGS, ClassifiedRow, read_classified
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.result import Result, compact, num_fitting, or_none

EXCERPT_CHARS = 80


class ReviewResult(Result):
    """A page of rows, least sure first; `next_offset` is where the next page starts."""

    count: int
    num_below: int | None = None
    results: list[ClassifiedRow]
    next_offset: int | None = None


async def review_uncertain(
    ctx: ToolCall,
    path: Annotated[str, Field(description="What classify_taxonomy wrote.")],
    offset: Annotated[int, Field(ge=0, description="The next_offset of the page before.")] = 0,
    limit: Annotated[int, Field(ge=1, le=100, description="Rows on a page.")] = 20,
    max_confidence: Annotated[
        float, Field(ge=0, le=1, description="Leave out rows that are surer.")
    ] = 1.0,
) -> Annotated[CallToolResult, ReviewResult]:
    """Page through the rows of a classified file that are least sure.

    Use it after classify_taxonomy with an output_path, to check what needs a second look. Give what
    you decided to store_corrections, and its file to classify_taxonomy as `examples`: the next run
    does better.

    Returns {index, id?, text, path, confidence, alternatives} by rising confidence, and next_offset
    while there are more. Limit: 100 rows a page, 10,000 in the file.
    """
    context = tool_context(ctx)
    file = context.folders.to_read(path, ENDINGS, argument="path")
    await context.progress(0, 1, f"reading {file.name}")
    rows = await anyio.to_thread.run_sync(read_classified, file, context.config.max_file_bytes)
    below = sorted(
        (row for row in rows if row.confidence <= max_confidence),
        key=lambda row: (row.confidence, row.index),
    )
    page = [
        row.model_copy(update={"text": row.text and row.text[:EXCERPT_CHARS]})
        for row in below[offset : offset + limit]
    ]
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
