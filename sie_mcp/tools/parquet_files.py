"""Rows to .parquet files, a block at a time. Imported only where pyarrow is installed."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import too_large

BLOCK_ROWS = 1_024
_TYPES = {
    "int": pa.int64(),
    "text": pa.string(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "vector": pa.list_(pa.float32()),
}


def write_table(
    file: BinaryIO, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write rows, None as null; `columns` says the kind of each."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    left = iter(rows)
    with pq.ParquetWriter(file, schema) as writer:
        while block := list(itertools.islice(left, BLOCK_ROWS)):
            writer.write_table(pa.Table.from_pylist(block, schema))


def read_rows(file: BinaryIO, name: str, max_rows: int, max_bytes: int) -> list[dict[str, Any]]:
    """Read a file as a whole, a dictionary a row.

    Raises:
        InvalidInput: broken, or more than the limits; that is known before anything is unpacked.
    """
    try:
        table = pq.ParquetFile(file)
        groups = [table.metadata.row_group(one) for one in range(table.metadata.num_row_groups)]
        if table.metadata.num_rows > max_rows:
            raise InvalidInput(
                f"{name} has {table.metadata.num_rows:,} rows; the limit is {max_rows:,}"
            )
        if sum(group.total_byte_size for group in groups) > max_bytes:
            raise too_large(name, max_bytes)
        found: list[dict[str, Any]] = table.read(use_threads=False).to_pylist()
        return found
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        raise InvalidInput(f"{name} is no readable Parquet file ({error})") from error


def copy_rows(file: BinaryIO, out: BinaryIO, dropped: Collection[int]) -> int:
    """Copy a file's rows but those of some numbers, from 0; return how many were copied."""
    table = pq.ParquetFile(file)
    number = copied = 0
    with pq.ParquetWriter(out, table.schema_arrow) as writer:
        for batch in table.iter_batches(BLOCK_ROWS, use_threads=False):
            kept = [row for row in range(batch.num_rows) if number + row not in dropped]
            writer.write_batch(batch.take(pa.array(kept, pa.int64())))
            number += batch.num_rows
            copied += len(kept)
    return copied
