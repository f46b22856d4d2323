"""Rows of .jsonl: an object, or a text, a line. Columns are found while it is read."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import (
    ID,
    TEXT,
    Request,
    Row,
    choose,
    join,
    unknown_column,
    which_columns,
)
from sie_mcp.tools.readers.text import read_blocks, split_lines


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield each object's chosen values; nested ones are left out.

    Raises:
        InvalidInput: a line that is no JSON, or a column that no object has.
    """
    known: dict[str, None] = {}
    chosen: list[str] = []
    images = [request.image_column] if request.image_column else []
    missing = {column.casefold(): column for column in [*request.columns, *images]}
    for number, line in enumerate(split_lines(read_blocks(file, request)), 1):
        if not line.strip():
            continue
        cells = _cells(line, f"{request.name}, line {number}")
        if not cells.keys() <= known.keys():
            known |= dict.fromkeys(cells)
            for name in cells:
                missing.pop(name.casefold(), None)
            if not request.columns:
                chosen = _obvious(chosen, _but(known, request.image_column), request.name)
        wanted = _present(request.columns, cells) if request.columns else chosen
        image = "".join(_present(images, cells))
        yield join(cells, wanted, f"line {number}", image)
    if missing:
        raise unknown_column(next(iter(missing.values())), list(known), request.name)


def _but(known: Iterable[str], image: str) -> list[str]:
    return [column for column in known if not image or column.casefold() != image.casefold()]


def _obvious(before: Sequence[str], known: Sequence[str], name: str) -> list[str]:
    """Find the obvious column; a later object must not make it another."""
    if all(column.casefold() == ID for column in known):
        return []
    chosen = choose([], known, name)
    if before and chosen != before:
        raise which_columns(known, name)
    return chosen


def _present(columns: Sequence[str], cells: dict[str, str]) -> list[str]:
    """Match columns to the names this object has, whatever their case."""
    by_folded = {name.casefold(): name for name in reversed(cells)}
    return [
        column if column in cells else by_folded.get(column.casefold(), column)
        for column in columns
    ]


def _cells(line: str, where: str) -> dict[str, str]:
    """Parse an object, or a text as if it were {"text": …}."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}: not JSON ({error})") from error
    if isinstance(value, str):
        return {TEXT: value}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected an object or a text, not {line[:40].rstrip()!r}")
    return {key: _as_text(cell) for key, cell in value.items() if not isinstance(cell, dict | list)}


def _as_text(cell: Any) -> str:
    return "" if cell is None else str(cell)
