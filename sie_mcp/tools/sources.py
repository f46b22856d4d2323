"""Texts out of files: columns of .csv, .tsv and .jsonl, lines or the whole of .txt and .md.

Parsing only: which paths may be read is decided in `folders`.
"""

import csv
import difflib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import MAX_FILE_BYTES, read_bytes

TABLES = (".csv", ".tsv", ".jsonl")
PLAIN = (".txt", ".md")
MAX_ROWS = 10_000
COLUMN_JOIN = ". "
_ID, _TEXT = "id", "text"

# The csv module's own limit (131,072) is below what a text may hold.
csv.field_size_limit(MAX_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class Row:
    """One text of a file, with the row's own id where it has one."""

    text: str
    id: str | None = None


def read_text(path: Path) -> str:
    """Read a UTF-8 file; a byte order mark is dropped.

    Raises:
        InvalidInput: not UTF-8, or what `read_bytes` refuses.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path.name} is not UTF-8 (byte 0x{data[error.start]:02x} at {error.start}); "
            "convert it and call again"
        ) from error


def read_rows(path: Path, columns: Sequence[str], *, whole: bool) -> list[Row]:
    """Read a file's texts; blank ones are kept, so that positions are the file's.

    Args:
        path: A .csv, .tsv or .jsonl file (one text a row), or .txt or .md.
        columns: What to join into one text; none means a column `text`, or the only one.
        whole: Whether a .txt or .md file is one text, rather than one text a line.

    Raises:
        InvalidInput: an unknown column, a broken row, or too many rows.
    """
    text = read_text(path)
    if path.suffix.lower() in PLAIN:
        if columns:
            raise InvalidInput(f"{path.name} has no columns; leave `columns` out")
        rows = [Row(text)] if whole else [Row(line.rstrip("\r")) for line in _lines(text)]
    elif path.suffix.lower() == ".jsonl":
        rows = _json_rows(text, columns, path.name)
    else:
        rows = _table_rows(text, columns, path)
    if not rows:
        raise InvalidInput(f"{path.name} holds no rows")
    if len(rows) > MAX_ROWS:
        raise InvalidInput(
            f"{path.name} has {len(rows):,} rows; the limit is {MAX_ROWS:,}; split it"
        )
    return rows


def read_table(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row that has any.

    Raises:
        InvalidInput: a quote that is never closed, or the like.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InvalidInput(f"{name}, line {reader.line_num}: {error}") from error


def _table_rows(text: str, columns: Sequence[str], path: Path) -> list[Row]:
    table = read_table(text, "\t" if path.suffix.lower() == ".tsv" else ",", path.name)
    _, header = next(table, (0, []))
    names = [name.strip() for name in header]
    chosen = _choose(columns, names, path.name)
    rows = []
    for line, cells in table:
        if len(cells) != len(names):
            raise InvalidInput(
                f"{path.name}, line {line}: {len(cells)} cells, but {len(names)} columns"
            )
        rows.append(_row(dict(zip(names, cells, strict=True)), chosen))
    return rows


def _json_rows(text: str, columns: Sequence[str], name: str) -> list[Row]:
    values = [(number, line) for number, line in enumerate(_lines(text), 1) if line.strip()]
    parsed = [_json_line(line, f"{name}, line {number}") for number, line in values]
    known = list(dict.fromkeys(key for row in parsed for key in row))
    chosen = _choose(columns, known, name)
    return [_row(row, chosen) for row in parsed]


def _json_line(line: str, where: str) -> dict[str, str]:
    """Parse an object, or a text as if it were {"text": …}; nested values are left out."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}: not JSON ({error})") from error
    if isinstance(value, str):
        return {_TEXT: value}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected an object or a text, not {line[:40]!r}")
    plain = {key: cell for key, cell in value.items() if not isinstance(cell, dict | list)}
    return {key: "" if cell is None else str(cell) for key, cell in plain.items()}


def _choose(columns: Sequence[str], known: Sequence[str], name: str) -> list[str]:
    """Match column names, whatever their case; without any, find the obvious one."""
    by_folded = {column.casefold(): column for column in reversed(known)}
    if not columns:
        others = [column for column in known if column.casefold() != _ID]
        if _TEXT in by_folded:
            return [by_folded[_TEXT]]
        if len(others) == 1:
            return others
        raise InvalidInput(f"{name}: say which `columns` to read; there are {', '.join(known)}")
    for column in columns:
        if column.casefold() not in by_folded:
            near = difflib.get_close_matches(column.casefold(), by_folded, n=1)
            hint = f"; did you mean {by_folded[near[0]]!r}?" if near else ""
            raise InvalidInput(f"{name}: no column {column!r}; there are {', '.join(known)}{hint}")
    return [by_folded[column.casefold()] for column in columns]


def _row(cells: Mapping[str, str], chosen: Sequence[str]) -> Row:
    parts = [cells.get(column, "").strip() for column in chosen]
    ids = [value for column, value in cells.items() if column.casefold() == _ID]
    return Row(COLUMN_JOIN.join(part for part in parts if part), ids[0] if ids else None)


def _lines(text: str) -> list[str]:
    # Not splitlines(): it also cuts at U+2028 and the like, which texts hold.
    return text.removesuffix("\n").split("\n")
