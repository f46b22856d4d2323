"""The tables of an index in LanceDB, in a folder or an object store. Knows no files and no models.

Who writes holds a lock where there is one; of two that write without it at once each may add the
same rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS

from sie_mcp.tools.index.lance import (
    KEEP_VERSIONS,
    MAX_PIECES,
    begin,
    commit,
    is_in,
    matrix,
    opened,
    probe_metadata,
    probe_of,
    quoted,
    storing,
)
from sie_mcp.tools.index.rows import Excluded, Known, Row, StoredChunk

_CHUNKS, _FILES = "chunks", "files"
_WORDS = "text_idx"
# Words that are not in their index yet are searched one by one.
MAX_UNINDEXED = 2_000
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
        with storing(self._uri):
            self._db = lancedb.connect(uri)
            listed = {_CHUNKS, _FILES}.intersection(self._db.list_tables().tables)
            seen = {name: opened(self._db, name) for name in listed}
            found: dict[str, Any] = {name: one for name, one in seen.items() if one is not None}
            self._names = set(found)
            self.is_made = self._names == {_CHUNKS, _FILES}
            if self.is_made:
                self._chunks, self._files = found[_CHUNKS], found[_FILES]

    @property
    def probe(self) -> np.ndarray:
        """The vector that the index was made with, float32 `(dims,)`."""
        return probe_of(self._chunks.schema.metadata)

    def make(self, probe: np.ndarray) -> None:
        """Begin with nothing, for the model of this probe; call it under the lock.

        What another machine began since this one looked is joined, not dropped.

        Args:
            probe: float32 `(dims,)`, the vector by which a model is told from another.
        """
        with storing(self._uri):
            # First the files: without them what else is left is written again.
            self._files = self._begin(_FILES, _FILE_SCHEMA)
            self._chunks = self._begin(_CHUNKS, _chunk_schema(probe))
        self.is_made = True

    def known(self) -> dict[str, Known]:
        """Return what is known of every file, by path."""
        with storing(self._uri):
            self._files.checkout_latest()
            self._chunks.checkout_latest()
            columns = self._files.to_arrow().to_pydict()
        rows = zip(*(columns[field.name] for field in fields(Known)), strict=True)
        return {row[0]: Known(*row) for row in rows}

    def vectors(self, digests: Collection[str]) -> dict[str, np.ndarray]:
        """Return the vectors that are there already."""
        with storing(self._uri):
            found = (
                self._chunks.search()
                .where(is_in("digest", digests))
                .select(["digest", "vector"])
                .to_arrow()
            )
        values = matrix(found["vector"])
        return dict(zip(found["digest"].to_pylist(), values, strict=True))

    def put(self, rows: Sequence[Row]) -> None:
        """Write chunks in place of those of the same path and number."""
        if not rows:
            return
        table = pa.Table.from_pylist(
            [asdict(row.chunk) | {"digest": row.digest, "vector": row.vector} for row in rows],
            self._chunks.schema,
        )
        with storing(self._uri):
            self._upsert(self._chunks, ["path", "number"], table)

    def mark(self, files: Sequence[Known]) -> None:
        """Write what is known of files, and drop what their earlier chunks left behind."""
        if not files:
            return
        counts = {file.path: file.num_chunks for file in files}
        with storing(self._uri):
            there = self._chunks.search().where(is_in("path", counts))
            found = there.select(["path", "number"]).to_arrow().to_pylist()
            old = {(one["path"], counts[one["path"]]) for one in found if _is_old(one, counts)}
            for path, count in sorted(old):
                self._delete(self._chunks, f"path = {quoted(path)} AND number >= {count}")
            table = pa.Table.from_pylist([asdict(file) for file in files], _FILE_SCHEMA)
            self._upsert(self._files, ["path"], table)

    def remove(self, paths: Collection[str]) -> None:
        """Drop files and their chunks."""
        if paths:
            with storing(self._uri):
                self._delete(self._chunks, is_in("path", paths))
                self._delete(self._files, is_in("path", paths))

    def tidy(self) -> None:
        """Index the words of new chunks, and put small pieces together, where it is worth it."""
        with storing(self._uri):
            if self._chunks.count_rows() == 0:
                return
            stats = self._chunks.index_stats(_WORDS)
            if stats is None:
                config = FTS(stem=True, remove_stop_words=False, ascii_folding=True)
                commit(self._chunks, lambda: self._chunks.create_index("text", config=config))
            num_pieces = self._chunks.stats()["fragment_stats"]["num_fragments"]
            is_worth_it = stats is None or stats.num_unindexed_rows > MAX_UNINDEXED
            if is_worth_it or num_pieces > MAX_PIECES:
                for table in (self._chunks, self._files):
                    commit(table, partial(table.optimize, cleanup_older_than=KEEP_VERSIONS))

    def count(self) -> int:
        """Return the number of chunks."""
        with storing(self._uri):
            return int(self._chunks.count_rows())

    def nearest(
        self,
        vector: np.ndarray,
        k: int,
        paths: Collection[str] | None,
        besides: Excluded | None = None,
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks nearest in meaning with their cosines, nearest first.

        Args:
            vector: float32 `(dims,)`, of length 1.
            k: How many.
            paths: Of which files; None means all.
            besides: What is left out.
        """
        with storing(self._uri):
            query = self._chunks.search(vector).distance_type("dot")
            found = _hits(query, k, paths, "_distance", besides)
        return [(chunk, 1.0 - distance) for chunk, distance in found]

    def matching(self, text: str, k: int, paths: Collection[str] | None) -> list[StoredChunk]:
        """Return the chunks that share words with a text, best first by BM25."""
        with storing(self._uri):
            if self._chunks.index_stats(_WORDS) is None:
                return []
            query = self._chunks.search(text, query_type="fts", fts_columns="text")
            return [chunk for chunk, _ in _hits(query, k, paths, "_score")]

    def read(self, paths: Collection[str] | None) -> tuple[list[StoredChunk], np.ndarray]:
        """Return the chunks of some files, or of all, in order, and their vectors.

        The vectors are float32 `(num_chunks, dims)`.
        """
        with storing(self._uri):
            query = self._chunks.search()
            if paths is not None:
                query = query.where(is_in("path", paths))
            found = query.select([*_HIT_COLUMNS, "vector"]).to_arrow()
        chunks = [StoredChunk(**row) for row in found.select(_HIT_COLUMNS).to_pylist()]
        # Two machines that wrote at once may have written the same twice.
        places = {(chunk.path, chunk.number): place for place, chunk in enumerate(chunks)}
        order = [places[key] for key in sorted(places)]
        return [chunks[place] for place in order], matrix(found["vector"])[order]

    def _begin(self, name: str, schema: pa.Schema) -> Any:
        if name in self._names:
            return self._db.create_table(name, schema=schema, mode="overwrite")
        return begin(self._db, name, schema)

    def _upsert(self, table: Any, keys: list[str], rows: pa.Table) -> None:
        merge = table.merge_insert(keys)
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        commit(table, lambda: merge.execute(rows))

    def _delete(self, table: Any, condition: str) -> None:
        commit(table, lambda: table.delete(condition))


def _chunk_schema(probe: np.ndarray) -> pa.Schema:
    columns = [
        ("path", pa.string()), ("number", pa.int32()), ("unit", pa.string()),
        ("start", pa.int32()), ("end", pa.int32()), ("text", pa.string()),
        ("digest", pa.string()), ("vector", pa.list_(pa.float32(), len(probe))),
    ]  # fmt: skip
    return pa.schema(columns, probe_metadata(probe))


def _hits(
    query: Any, k: int, paths: Collection[str] | None, by: str, besides: Excluded | None = None
) -> list[tuple[StoredChunk, float]]:
    conditions = [] if paths is None else [is_in("path", paths)]
    if besides is not None:
        conditions.append(
            f"NOT (path = {quoted(besides.path)} AND start <= {besides.end} "
            f"AND `end` >= {besides.start})"
        )
    if conditions:
        query = query.where(" AND ".join(conditions), prefilter=True)
    found = query.select([*_HIT_COLUMNS, by]).limit(k).to_arrow()
    rows = found.select(_HIT_COLUMNS).to_pylist()
    scores = found[by].to_pylist()
    return [(StoredChunk(**row), score) for row, score in zip(rows, scores, strict=True)]


def _is_old(chunk: dict[str, Any], counts: dict[str, int]) -> bool:
    return bool(chunk["number"] >= counts[chunk["path"]])
