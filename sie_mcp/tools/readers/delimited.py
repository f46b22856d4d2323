"""Rows of .csv and .tsv: the first line names the columns, and shows what stands between cells."""

import csv
import itertools
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import ending_of
from sie_mcp.tools.readers.rows import Request, Row, choose_for, join
from sie_mcp.tools.readers.text import read_blocks, split_lines

# The csv module's own limit (131,072) is below what a text may hold; max_file_bytes bounds a cell.
csv.field_size_limit(2**31 - 1)


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield each row's chosen columns.

    Raises:
        InvalidInput: an unknown column, or a broken row.
    """
    _, table = open_table(file, request)
    _, header = next(table, (0, []))
    names = [name.strip() for name in header]
    chosen, image = choose_for(request, names)
    for line, cells in table:
        if len(cells) != len(names):
            raise InvalidInput(
                f"{request.name}, line {line}: {len(cells)} cells, but {len(names)} columns"
            )
        yield join(dict(zip(names, cells, strict=True)), chosen, f"line {line}", image)


def open_table(file: BinaryIO, request: Request) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Return what stands between cells, and the rows as `read_table` yields them."""
    lines = iter(split_lines(read_blocks(file, request)))
    first = next(lines, "")
    delimiter = "\t" if ending_of(request.name).startswith(".tsv") else delimiter_of(first)
    return delimiter, read_table(itertools.chain([first], lines), delimiter, request.name)


def delimiter_of(header: str) -> str:
    """Return what parts the cells of a .csv, by the line that names its columns.

    Where the comma is the decimal mark, spreadsheets write semicolons, and some write tabs.
    """
    return next((mark for mark in ";\t" if mark in header and "," not in header), ",")


def read_table(lines: Iterable[str], delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row that has any.

    Raises:
        InvalidInput: a quote that is never closed, or the like.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InvalidInput(f"{name}, line {reader.line_num}: {error}") from error
