"""The tables of an index in LanceDB, in a folder or an object store. Knows no files and no models.

Every write is one commit of Lance: it is there whole or not at all, and others read on meanwhile.
Who writes holds a lock: of two that write at once each may add the same rows, or give up.
Imported at first use, as LanceDB is large. Its calls block: they are made in threads.
"""

import base64
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS

from sie_mcp.errors import ModelLoading, SettingError
from sie_mcp.tools.index.rows import Known, Row, StoredChunk

_CHUNKS, _FILES = "chunks", "files"
_PROBE = b"sie.probe"
# Part of what Lance says of two writers at once, where the lock is not a common one.
_CONFLICT = "concurrent transaction"
_WORDS = "text_idx"
# Words that are not in their index yet are searched one by one.
MAX_UNINDEXED = 2_000
# A search that runs meanwhile may still read what was replaced.
KEEP_VERSIONS = timedelta(minutes=30)
# Commits after which small pieces are worth putting together.
MAX_PIECES = 20
_FILE_SCHEMA = pa.schema(
    [
        ("path", pa.string()), ("size", pa.int64()), ("mtime_ns", pa.int64()),
        ("digest", pa.string()), ("read_ns", pa.int64()), ("num_chunks", pa.int32()),
        ("problem", pa.string()),
    ]
)  # fmt: skip
_HIT_COLUMNS = [field.name for field in fields(StoredChunk)]


class Store:
    """One index."""

    def __init__(self, uri: str) -> None:
        """Open the index at a folder or an object store's URI; it may not be there yet.

        Raises:
            SettingError: the place cannot be used.
        """
        self._uri = uri
        with self._storing():
            self._db = lancedb.connect(uri)
            names = set(self._db.list_tables().tables)
            self.is_made = names >= {_CHUNKS, _FILES}
            if self.is_made:
                self._chunks = self._db.open_table(_CHUNKS)
                self._files = self._db.open_table(_FILES)

    @property
    def probe(self) -> np.ndarray:
        """The vector that the index was made with, float32 `(dims,)`."""
        return np.frombuffer(base64.b64decode(self._chunks.schema.metadata[_PROBE]), np.float32)

    def make(self, probe: np.ndarray) -> None:
        """Begin with nothing, for the model of this probe; call it under the lock.

        Args:
            probe: float32 `(dims,)`, the vector by which a model is told from another.
        """
        with self._storing():
            # First the files: without them what else is left is written again.
            self._files = self._db.create_table(_FILES, schema=_FILE_SCHEMA, mode="overwrite")
            self._chunks = self._db.create_table(
                _CHUNKS, schema=_chunk_schema(probe), mode="overwrite"
            )
        self.is_made = True

    def known(self) -> dict[str, Known]:
        """Return what is known of every file, by path."""
        with self._storing():
            self._files.checkout_latest()
            self._chunks.checkout_latest()
            columns = self._files.to_arrow().to_pydict()
        rows = zip(*(columns[field.name] for field in fields(Known)), strict=True)
        return {row[0]: Known(*row) for row in rows}

    def vectors(self, digests: Collection[str]) -> dict[str, np.ndarray]:
        """Return the vectors that are there already."""
        with self._storing():
            found = (
                self._chunks.search()
                .where(_is_in("digest", digests))
                .select(["digest", "vector"])
                .to_arrow()
            )
        values = _matrix(found["vector"])
        return dict(zip(found["digest"].to_pylist(), values, strict=True))

    def put(self, rows: Sequence[Row]) -> None:
        """Write chunks in place of those of the same path and number."""
        if not rows:
            return
        table = pa.Table.from_pylist(
            [asdict(row.chunk) | {"digest": row.digest, "vector": row.vector} for row in rows],
            self._chunks.schema,
        )
        with self._storing():
            self._upsert(self._chunks, ["path", "number"], table)

    def mark(self, files: Sequence[Known]) -> None:
        """Write what is known of files, and drop what their earlier chunks left behind."""
        if not files:
            return
        counts = {file.path: file.num_chunks for file in files}
        with self._storing():
            there = self._chunks.search().where(_is_in("path", counts))
            found = there.select(["path", "number"]).to_arrow().to_pylist()
            old = {(one["path"], counts[one["path"]]) for one in found if _is_old(one, counts)}
            for path, count in sorted(old):
                self._chunks.delete(f"path = {_quoted(path)} AND number >= {count}")
            table = pa.Table.from_pylist([asdict(file) for file in files], _FILE_SCHEMA)
            self._upsert(self._files, ["path"], table)

    def remove(self, paths: Collection[str]) -> None:
        """Drop files and their chunks."""
        if paths:
            with self._storing():
                self._chunks.delete(_is_in("path", paths))
                self._files.delete(_is_in("path", paths))

    def tidy(self) -> None:
        """Index the words of new chunks, and put small pieces together, where it is worth it."""
        with self._storing():
            if self._chunks.count_rows() == 0:
                return
            stats = self._chunks.index_stats(_WORDS)
            if stats is None:
                config = FTS(stem=True, remove_stop_words=False, ascii_folding=True)
                self._chunks.create_index("text", config=config)
            num_pieces = self._chunks.stats()["fragment_stats"]["num_fragments"]
            is_worth_it = stats is None or stats.num_unindexed_rows > MAX_UNINDEXED
            if is_worth_it or num_pieces > MAX_PIECES:
                self._chunks.optimize(cleanup_older_than=KEEP_VERSIONS)
                self._files.optimize(cleanup_older_than=KEEP_VERSIONS)

    def count(self) -> int:
        """Return the number of chunks."""
        with self._storing():
            return int(self._chunks.count_rows())

    def nearest(
        self, vector: np.ndarray, k: int, paths: Collection[str] | None
    ) -> list[StoredChunk]:
        """Return the chunks nearest in meaning, nearest first, of some files or all (None)."""
        with self._storing():
            query = self._chunks.search(vector).distance_type("dot")
            return _hits(query, k, paths, "_distance")

    def matching(self, text: str, k: int, paths: Collection[str] | None) -> list[StoredChunk]:
        """Return the chunks that share words with a text, best first by BM25."""
        with self._storing():
            if self._chunks.index_stats(_WORDS) is None:
                return []
            query = self._chunks.search(text, query_type="fts", fts_columns="text")
            return _hits(query, k, paths, "_score")

    def _upsert(self, table: Any, keys: list[str], rows: pa.Table) -> None:
        merge = table.merge_insert(keys)
        merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Translate what LanceDB raises."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            if _CONFLICT in reason:
                raise ModelLoading(
                    "another machine is indexing this folder too; what was written is kept"
                ) from error
            raise SettingError(
                f"index_dir: {self._uri} cannot be used ({reason}); delete it to have it made "
                "again, or set another index_dir"
            ) from error


def _chunk_schema(probe: np.ndarray) -> pa.Schema:
    columns = [
        ("path", pa.string()), ("number", pa.int32()), ("unit", pa.string()),
        ("start", pa.int32()), ("end", pa.int32()), ("text", pa.string()),
        ("digest", pa.string()), ("vector", pa.list_(pa.float32(), len(probe))),
    ]  # fmt: skip
    return pa.schema(columns, {_PROBE: base64.b64encode(probe.astype(np.float32).tobytes())})


def _hits(query: Any, k: int, paths: Collection[str] | None, by: str) -> list[StoredChunk]:
    if paths is not None:
        query = query.where(_is_in("path", paths), prefilter=True)
    found = query.select([*_HIT_COLUMNS, by]).limit(k).to_arrow().select(_HIT_COLUMNS)
    return [StoredChunk(**row) for row in found.to_pylist()]


def _is_old(chunk: dict[str, Any], counts: dict[str, int]) -> bool:
    return bool(chunk["number"] >= counts[chunk["path"]])


def _matrix(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column of vectors as float32 `(num_rows, dims)`."""
    values = column.combine_chunks()
    flat: np.ndarray = values.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(values), -1) if len(values) else np.empty((0, 0), np.float32)


def _is_in(column: str, values: Collection[str]) -> str:
    return f"{column} IN ({', '.join(map(_quoted, values))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
