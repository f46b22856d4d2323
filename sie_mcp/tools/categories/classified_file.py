"""Reading back what classify_taxonomy wrote, in any of its formats. Knows no taxonomy."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.opening import open_file
from sie_mcp.tools.optional import load
from sie_mcp.tools.outputs import TABLE_ENDINGS
from sie_mcp.tools.result import Result, RoundedScore
from sie_mcp.tools.sources import MAX_ROWS, read_text

ENDINGS = TABLE_ENDINGS
_CELL_JOIN = " | "


class ClassifiedRow(Result):
    """A row of the file: what it is, the path it has and the ones it could have."""

    index: int
    id: str | None = None
    source: str | None = None
    text: str | None = None
    path: str
    at_parent: bool | None = None
    confidence: RoundedScore
    alternatives: list[str] | None = None


def read_classified(file: AllowedPath, max_bytes: int) -> list[ClassifiedRow]:
    """Return the rows in the file's order.

    Raises:
        InvalidInput: too many, or it is no classified file.
    """
    entries = _entries(file, max_bytes)
    if len(entries) > MAX_ROWS:
        raise InvalidInput(f"{file.name} has {len(entries):,} rows; the limit is {MAX_ROWS:,}")
    return [_row(entry, number, file.name) for number, entry in enumerate(entries, 1)]


def _entries(file: AllowedPath, max_bytes: int) -> list[Any]:
    if file.ending == ".parquet":
        read_rows = load("sie_mcp.tools.parquet_files").read_rows
        with open_file(file, max_bytes) as table:
            found: list[Any] = read_rows(table, file.name, MAX_ROWS, max_bytes)
            return found
    text = read_text(file, max_bytes)
    if file.ending == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    return [_parsed(line, n, file.name) for n, line in enumerate(text.split("\n"), 1) if line]


def _parsed(line: str, number: int, name: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} line {number} is not JSON: {error}") from error


def _row(entry: Any, number: int, name: str) -> ClassifiedRow:
    try:
        return ClassifiedRow(
            index=int(entry["index"]),
            id=entry.get("id") or None,
            source=entry.get("source") or None,
            text=entry.get("text") or None,
            path=entry["path"],
            at_parent=entry.get("at_parent") in (True, "True") or None,
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
