"""A table without some of its rows: all columns as they were, in the table's own format."""

import csv
import io
from collections.abc import Callable, Collection
from typing import BinaryIO

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.opening import open_file
from sie_mcp.tools.optional import load
from sie_mcp.tools.outputs import write_new
from sie_mcp.tools.readers.delimited import find_delimiter, read_table
from sie_mcp.tools.readers.rows import Request
from sie_mcp.tools.readers.text import read_blocks, split_lines

# Copies rows but those of some numbers, from 0, as its reader counts them; returns how many.
Copier = Callable[[BinaryIO, BinaryIO, Collection[int], Request], int]


def can_copy(source: AllowedPath, output: AllowedPath) -> bool:
    """Whether rows of one file can be written to the other as they are."""
    return source.ending == output.ending and source.ending in _COPIERS


def copy_rows(
    source: AllowedPath,
    output: AllowedPath,
    dropped: Collection[int],
    *,
    num_rows: int,
    max_bytes: int,
) -> int:
    """Write a new file with the rows that are not dropped, blank ones too; return their number.

    Args:
        source: The table.
        output: The new file, of the same format.
        dropped: Numbers of rows, from 0.
        num_rows: How many the table had when it was read.
        max_bytes: What it may hold.

    Raises:
        InvalidInput: the table has changed or is gone, or the new file cannot be written.
    """

    def write(out: BinaryIO) -> None:
        with open_file(source, max_bytes) as file:
            request = Request(source.name, [], False, max_bytes)
            copied = _COPIERS[source.ending](file, out, dropped, request)
        if copied != num_rows - len(dropped):
            raise InvalidInput(f"{source.name} was changed meanwhile; call again")

    write_new(output, write)
    return num_rows - len(dropped)


def _copy_csv(file: BinaryIO, out: BinaryIO, dropped: Collection[int], request: Request) -> int:
    delimiter, lines = find_delimiter(split_lines(read_blocks(file, request)), request.name)
    table = read_table(lines, delimiter, request.name)
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(next(table)[1])
    copied = 0
    for number, (_, cells) in enumerate(table):
        if number not in dropped:
            writer.writerow(cells)
            copied += 1
    text.detach()
    return copied


def _copy_lines(file: BinaryIO, out: BinaryIO, dropped: Collection[int], request: Request) -> int:
    lines = (line for line in split_lines(read_blocks(file, request)) if line.strip())
    copied = 0
    for number, line in enumerate(lines):
        if number not in dropped:
            out.write(f"{line.rstrip()}\n".encode())
            copied += 1
    return copied


def _copy_parquet(file: BinaryIO, out: BinaryIO, dropped: Collection[int], request: Request) -> int:
    copied: int = load("sie_mcp.tools.parquet_files").copy_rows(file, out, dropped)
    return copied


_COPIERS: dict[str, Copier] = {
    ".csv": _copy_csv,
    ".jsonl": _copy_lines,
    ".parquet": _copy_parquet,
}
