"""The tool `store_corrections`: where rows of a classified file belong, kept as examples."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Annotated

import anyio.to_thread
import pydantic
from mcp.types import CallToolResult
from pydantic import ConfigDict, Field

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.choice import MAX_EXAMPLES
from sie_mcp.tools.categories.classified_file import ENDINGS, read_classified
from sie_mcp.tools.classify_taxonomy import TaxonomyName
from sie_mcp.tools.context import ToolCall, ToolContext, tool_context
from sie_mcp.tools.examples import (
    CATEGORY,
    MAX_SHOWN_CHARS,
    TEXT,
    category_nodes,
    unknown_category,
)
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.outputs import append, write_new
from sie_mcp.tools.result import Result, compact, or_none
from sie_mcp.tools.sources import read_text
from sie_mcp.tools.taxonomy_files import find_taxonomy

MAX_CORRECTIONS = 1_000
_EXAMPLES = (".csv",)


class Correction(pydantic.BaseModel):
    """A row, and where it belongs."""

    model_config = ConfigDict(extra="forbid")

    index: int
    category: str = Field(default="", max_length=20_000)


class StoredResult(Result):
    """What was added to the examples, or has another category now; `count` is all of them."""

    examples: str
    added: int
    changed: int | None = None
    count: int


async def store_corrections(
    ctx: ToolCall,
    path: Annotated[str, Field(description="What classify_taxonomy wrote.")],
    corrections: Annotated[
        list[Correction],
        Field(
            min_length=1,
            max_length=MAX_CORRECTIONS,
            description="Rows by their index; category: an id or a path, left out where the row's "
            "own is right.",
        ),
    ],
    examples: Annotated[
        str, Field(max_length=4_096, description="A .csv to keep them in, old or new.")
    ],
    taxonomy: TaxonomyName = "shopify",
) -> Annotated[CallToolResult, StoredResult]:
    """Keep the right categories of rows as examples, so that the next classification is better.

    Use it after review_uncertain. Store rows that were right too: mistakes alone teach less. Then
    call classify_taxonomy again with the file as `examples` and another output_path.

    Returns how many were added or changed, and how many there are. Limit: 2,000 in a file.
    """
    context = tool_context(ctx)
    file = context.folders.to_read(path, ENDINGS, argument="path")
    tree = await find_taxonomy(context, taxonomy)
    await context.progress(0, 1, f"reading {file.name}")
    stored = await anyio.to_thread.run_sync(_store, context, file, corrections, examples, tree)
    return compact(stored)


def _store(
    context: ToolContext,
    file: AllowedPath,
    corrections: Sequence[Correction],
    examples: str,
    tree: Taxonomy,
) -> StoredResult:
    limit_bytes = context.config.max_file_bytes
    place, before = _before(context, examples, limit_bytes)
    known = _known(place, before)
    decided = _decided(file, corrections, tree, limit_bytes)
    new = {text: path for text, path in decided.items() if known.get(text) != path}
    num_added = len(new.keys() - known.keys())
    if (count := len(known) + num_added) > MAX_EXAMPLES:
        raise InvalidInput(
            f"examples: {place.name} would have {count:,} rows; the limit is {MAX_EXAMPLES:,}; "
            "keep a few of each category"
        )
    if before and new:
        append(place, _lines(new.items(), after=before))
    elif new:
        write_new(place, lambda out: out.write(_lines([(TEXT, CATEGORY), *new.items()])))
    return StoredResult(
        examples=str(place.path),
        added=num_added,
        changed=or_none(len(new) - num_added),
        count=count,
    )


def _before(context: ToolContext, examples: str, limit_bytes: int) -> tuple[AllowedPath, str]:
    """Return the file of examples and what it holds; "" where it is not there yet."""
    if any(one.path.exists() for one in context.folders.inside(examples, "examples")):
        file = context.folders.to_read(examples, _EXAMPLES, argument="examples")
        return file, read_text(file, limit_bytes)
    return context.folders.to_write(examples, _EXAMPLES, argument="examples"), ""


def _decided(
    file: AllowedPath, corrections: Sequence[Correction], tree: Taxonomy, limit_bytes: int
) -> dict[str, str]:
    """Return the path of each corrected row, under its text."""
    rows = {row.index: row for row in read_classified(file, limit_bytes)}
    nodes = category_nodes(tree)
    decided: dict[str, str] = {}
    decided_by: dict[str, int] = {}
    for number, one in enumerate(corrections):
        where = f"corrections[{number}]"
        row = rows.get(one.index)
        if row is None or not row.text:
            what = "has no text" if row else "is not there"
            raise InvalidInput(f"{where}: row {one.index} {what}; {file.name} has {len(rows):,}")
        category = one.category.strip() or row.path
        node = nodes.get(category.casefold())
        if node is None:
            is_own = not one.category.strip()
            raise _unknown(f"{where}, row {row.index}", category, tree, file, is_own=is_own)
        path = SEPARATOR.join(tree.paths[node])
        if decided.setdefault(row.text, path) != path:
            raise InvalidInput(
                f"{where}: row {row.index} has the text of row {decided_by[row.text]}, but another "
                f"category: {path!r}, not {decided[row.text]!r}; send one of them"
            )
        decided_by[row.text] = row.index
    return decided


def _unknown(
    where: str, category: str, tree: Taxonomy, file: AllowedPath, *, is_own: bool
) -> InvalidInput:
    """Return the error for a category, of a row's own or given, that the taxonomy has not."""
    if not is_own:
        return unknown_category(where, category, tree)
    what = f"its own category {category[:MAX_SHOWN_CHARS]!r} is none of {tree.name}"
    return InvalidInput(
        f"{where}: {what}; send a category, or the `taxonomy` that {file.name} was classified into"
    )


def _known(file: AllowedPath, before: str) -> dict[str, str]:
    """Return the examples that are there; of a text that comes twice the last row counts."""
    table = csv.reader(io.StringIO(before, newline=""))
    if before and next(table, None) != [TEXT, CATEGORY]:
        raise InvalidInput(
            f"examples: {file.name} has other columns than {TEXT},{CATEGORY}; name a new file"
        )
    rows: list[list[str]] = [row for row in table if row]
    if any(len(row) != 2 for row in rows):
        raise InvalidInput(f"examples: {file.name} has rows of another length; mend it")
    return dict(rows)


def _lines(rows: Iterable[tuple[str, str]], *, after: str = "") -> bytes:
    out = io.StringIO("" if not after or after.endswith("\n") else "\n", newline="")
    out.seek(0, io.SEEK_END)
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()
