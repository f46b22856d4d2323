"""Rows of .parquet files: only the chosen columns are read, a few rows at a time.

Texts stay in the file's dictionary until they are wanted, so that a small file whose rows repeat
one long text does not become a large one before its size is noticed.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import ID, Request, Row, choose_for, join, too_large

BATCH_ROWS = 256
_BROKEN = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, MemoryError)


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield each row's chosen columns.

    Raises:
        InvalidInput: broken, an unknown column, one that holds no plain values, or too much.
    """
    try:
        table = pq.ParquetFile(file)
        names = table.schema_arrow.names
        chosen, image = choose_for(request, names)
        images = [image] if image else []
        wanted = [*dict.fromkeys([*chosen, *_ids(names), *images])]
        _check(table, wanted, request)
        table = pq.ParquetFile(file, read_dictionary=wanted)
        number = 0
        for batch in table.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
            for place in range(batch.num_rows):
                cells = {name: _as_text(batch.column(name)[place]) for name in wanted}
                number += 1
                yield join(cells, chosen, f"row {number}", image)
    except _BROKEN as error:
        raise InvalidInput(f"{request.name} is no readable Parquet file ({error})") from error


def _ids(names: list[str]) -> list[str]:
    return [name for name in names if name.casefold() == ID][:1]


def _check(table: pq.ParquetFile, wanted: list[str], request: Request) -> None:
    """Refuse nested and binary columns, and too much to unpack."""
    for name in wanted:
        kind = table.schema_arrow.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise InvalidInput(
                f"{request.name}: the column {name!r} holds {kind}, no texts; name another one"
            )
    num_bytes = 0
    for group in range(table.metadata.num_row_groups):
        row_group = table.metadata.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            if column.path_in_schema in wanted:
                num_bytes += max(column.total_uncompressed_size, 0)
    if num_bytes > request.max_bytes:
        raise too_large(request.name, request.max_bytes)


def _as_text(cell: Any) -> str:
    value = cell.as_py()
    return "" if value is None else str(value)
