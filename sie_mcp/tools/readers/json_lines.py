"""Rows of .jsonl: an object, or a text, a line. Columns are found while it is read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import (
    TEXT,
    Request,
    Row,
    as_text,
    candidates,
    is_no_id,
    is_plain,
    join,
    obvious,
    unknown_column,
    which_columns,
)
from sie_mcp.tools.readers.text import read_blocks, split_lines


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield each object's chosen values; those of a list are joined.

    Raises:
        InvalidInput: a line that is no JSON, a column that no object has, or one of objects.
    """
    columns = _Columns(request)
    for number, line in enumerate(split_lines(read_blocks(file, request)), 1):
        if not line.strip():
            continue
        where = f"{request.name}, line {number}"
        values = _parsed(line, where)
        chosen, image = columns.choose(values)
        cells = {
            name: as_text(values[name], name, where) for name in (*chosen, image) if name in values
        }
        ids = {name: as_text(values[name], name, where) for name in _ids(values)}
        yield join(ids | cells, chosen, f"line {number}", image)
    columns.check()


class _Columns:
    """The columns that were met so far, and which of them are wanted."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._images = [request.image_column] if request.image_column else []
        wanted = [*request.columns, *self._images]
        self._missing = {column.casefold(): column for column in wanted}
        # Whether a value of each was one text, or only lists and objects were met.
        self._known: dict[str, bool] = {}
        self._chosen: list[str] = []

    def choose(self, values: dict[str, Any]) -> tuple[list[str], str]:
        """Match the columns of an object's texts and the one of its image.

        Raises:
            InvalidInput: none is obvious.
        """
        met = {name: self._known.get(name) or is_plain(value) for name, value in values.items()}
        if not met.items() <= self._known.items():
            self._known |= met
            for name in values:
                self._missing.pop(name.casefold(), None)
            if not self._request.columns:
                self._chosen = self._obvious()
        columns, image = self._request.columns, "".join(_present(self._images, values))
        return _present(columns, values) if columns else self._chosen, image

    def check(self) -> None:
        """Raise InvalidInput for a wanted column that no object has."""
        if self._missing:
            missing = next(iter(self._missing.values()))
            raise unknown_column(missing, list(self._known), self._request.name)

    def _obvious(self) -> list[str]:
        """Find the obvious column; a later object must not make it another."""
        image = self._request.image_column.casefold()
        met = {one: plain for one, plain in self._known.items() if one.casefold() != image}
        texts = candidates(met)
        if not any(map(is_no_id, texts)):
            return []
        chosen = obvious(texts)
        if not chosen or (self._chosen and chosen != self._chosen):
            raise which_columns(list(met), self._request.name)
        return chosen


def _ids(values: Mapping[str, Any]) -> list[str]:
    """Return the columns of the row's own id; what is nested is none."""
    return [name for name in values if not is_no_id(name) and is_plain(values[name])]


def _present(columns: Sequence[str], values: dict[str, Any]) -> list[str]:
    """Match columns to the names this object has, whatever their case."""
    by_folded = {name.casefold(): name for name in reversed(values)}
    return [
        column if column in values else by_folded.get(column.casefold(), column)
        for column in columns
    ]


def _parsed(line: str, where: str) -> dict[str, Any]:
    """Parse an object, or a text as if it were {"text": …}."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{where}: not JSON ({error}); each line is one object: jq -c . writes them so"
        ) from error
    if isinstance(value, str):
        return {TEXT: value}
    if not isinstance(value, dict):
        hint = "; write its entries a line each: jq -c '.[]'" if isinstance(value, list) else ""
        raise InvalidInput(
            f"{where}: expected an object or a text, not {line[:40].rstrip()!r}{hint}"
        )
    return value
