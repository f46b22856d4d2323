"""Files of what `deduplicate` found: what is kept, or every text with its group."""

from collections.abc import Iterable, Iterator
from typing import Any

from sie_mcp.tools.collection import Collection
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.duplicate_groups import Groups
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.outputs import ColumnType, write_rows
from sie_mcp.tools.patterns import is_pattern
from sie_mcp.tools.readers.formats import FORMATS
from sie_mcp.tools.row_copies import can_copy, copy_rows

_COLUMNS: dict[str, ColumnType] = {
    "group": "int",
    "kept": "bool",
    "similarity": "float",
    "index": "int",
    "id": "text",
    "source": "text",
    "path": "text",
    "lines": "text",
    "pages": "text",
    "paragraphs": "text",
    "text": "text",
}


def write_groups(path: AllowedPath, collection: Collection, groups: Groups) -> int:
    """Write every text with its group; return the number of rows.

    Raises:
        InvalidInput: the file cannot be written.
    """
    rows = range(len(collection.texts))
    write_rows(path, _COLUMNS, _entries(rows, collection, groups))
    return len(rows)


def write_kept(
    context: ToolContext, path: str, output: AllowedPath, collection: Collection, groups: Groups
) -> int:
    """Write what is not dropped; return the number of rows.

    A table to a file of its own format keeps all its columns, and the rows that were not compared.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if collection.unit == "row" and path and not is_pattern(path):
        table = context.folders.to_read(path, FORMATS)
        if can_copy(table, output):
            gaps = collection.gaps
            num_rows = len(collection.texts) + (gaps.blank_rows or 0)
            num_rows += gaps.failed.count if gaps.failed else 0
            dropped = {collection.place(row).index or 0 for row in _dropped(groups)}
            limit = context.config.max_file_bytes
            return copy_rows(table, output, dropped, num_rows=num_rows, max_bytes=limit)
    leaders = sorted(set(groups.kept.tolist()))
    write_rows(output, _COLUMNS, _entries(leaders, collection, groups))
    return len(leaders)


def _dropped(groups: Groups) -> list[int]:
    return [row for row, kept in enumerate(groups.kept.tolist()) if kept != row]


def _entries(
    rows: Iterable[int], collection: Collection, groups: Groups
) -> Iterator[dict[str, Any]]:
    numbers = {kept: number for number, kept in enumerate(sorted(set(groups.kept.tolist())))}
    for row in rows:
        kept = int(groups.kept[row])
        yield collection.place(row).model_dump() | {
            "group": numbers[kept],
            "kept": kept == row,
            "similarity": round(float(groups.similarity[row]), 4),
            "text": collection.texts[row],
        }
