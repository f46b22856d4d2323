"""Rows of .csv and .tsv: the first line names the columns, and shows what stands between them."""

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
    delimiter, lines = find_delimiter(split_lines(read_blocks(file, request)), request.name)
    table = read_table(lines, delimiter, request.name)
    _, header = next(table, (0, []))
    names = [name.strip() for name in header]
    chosen, image = choose_for(request, names)
    for line, cells in table:
        if len(cells) != len(names):
            raise InvalidInput(
                f"{request.name}, line {line}: {len(cells)} cells, but {len(names)} columns"
            )
        yield join(dict(zip(names, cells, strict=True)), chosen, f"line {line}", image)


def find_delimiter(lines: Iterator[str], name: str) -> tuple[str, Iterator[str]]:
    """Return what stands between the columns, and all lines.

    Where a comma is the decimal sign, programs put semicolons between the columns of a .csv file.
    """
    if ending_of(name).startswith(".tsv"):
        return "\t", lines
    header = next(lines, "")
    others = [one for one in (";", "\t") if one in header and "," not in header]
    return (others or [","])[0], itertools.chain([header], lines)


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
