"""Rows of .parquet files: only the chosen columns are read, a few rows at a time.

Texts stay in the file's dictionary until they are wanted, so that a small file whose rows repeat
one long text does not become a large one before its size is noticed.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import (
    Request,
    Row,
    as_text,
    candidates,
    choose_for,
    is_no_id,
    join,
    obvious,
    too_large,
)

BATCH_ROWS = 256
_BROKEN = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, MemoryError)


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield each row's chosen columns; the entries of a list are joined.

    Raises:
        InvalidInput: broken, an unknown column, one that holds no plain values, or too much.
    """
    try:
        table = pq.ParquetFile(file)
        fields = {field.name: field.type for field in table.schema_arrow}
        is_plain = {name: not pa.types.is_nested(kind) for name, kind in fields.items()}
        if not request.columns and not request.image_column:
            request = replace(request, columns=obvious(candidates(is_plain)))
        chosen, image = choose_for(request, table.schema_arrow.names)
        ids = [name for name in fields if not is_no_id(name) and is_plain[name]][:1]
        wanted = list(dict.fromkeys([*chosen, *ids, *([image] if image else [])]))
        leaves = _check(table, wanted, request)
        table = pq.ParquetFile(file, read_dictionary=leaves)
        number = 0
        for batch in table.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
            for place in range(batch.num_rows):
                number += 1
                where = f"{request.name} row {number}"
                cells = {
                    name: as_text(_value(batch.column(name)[place], request), name, where)
                    for name in wanted
                }
                yield join(cells, chosen, f"row {number}", image)
    except _BROKEN as error:
        raise InvalidInput(f"{request.name} is no readable Parquet file ({error})") from error


def _check(table: pq.ParquetFile, wanted: list[str], request: Request) -> list[str]:
    """Refuse columns that hold no texts, and too much to unpack; return the paths of what is read.

    Raises:
        InvalidInput: says which column, or how much.
    """
    lists = set()
    for name in wanted:
        kind = table.schema_arrow.field(name).type
        if _is_list(kind):
            lists.add(name)
            kind = kind.value_type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise InvalidInput(
                f"{request.name}: the column {name!r} holds {table.schema_arrow.field(name).type}, "
                "no texts; name another one"
            )
    leaves: dict[str, int] = {}
    for group in range(table.metadata.num_row_groups):
        row_group = table.metadata.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            path = column.path_in_schema
            if path in wanted or any(path.startswith(f"{name}.") for name in lists):
                leaves[path] = leaves.get(path, 0) + max(column.total_uncompressed_size, 0)
    if sum(leaves.values()) > request.max_bytes:
        raise too_large(request.name, request.max_bytes)
    return list(leaves)


def _is_list(kind: pa.DataType) -> bool:
    is_one = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(kind) for check in is_one)


def _value(cell: pa.Scalar, request: Request) -> Any:
    """Return a cell's value; a list's entries are looked up one by one, as each may be long.

    Raises:
        InvalidInput: they come to more than the file may hold.
    """
    if not _is_list(cell.type) or not cell.is_valid:
        return cell.as_py()
    entries, num_chars = [], 0
    for entry in cell.values:
        entries.append(entry.as_py())
        num_chars += len(str(entries[-1]))
        if num_chars > request.max_bytes:
            raise too_large(request.name, request.max_bytes)
    return entries
