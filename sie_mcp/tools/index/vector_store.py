"""Vectors of texts by the digest of each, in LanceDB. Knows no texts: a digest does not tell them.

Rows are only ever added, so that writers need no lock: at worst a vector is there twice.
"""

import time
from collections.abc import Mapping, Sequence

import lancedb
import numpy as np
import pyarrow as pa

from sie_mcp.tools.index.lance import (
    KEEP_VERSIONS,
    MAX_PIECES,
    begin,
    commit,
    is_in,
    matrix,
    probe_metadata,
    probe_of,
    storing,
)
from sie_mcp.tools.vectors import SAME_MODEL

# At 384 numbers each 300 MB; over it the older half goes.
MAX_VECTORS = 200_000
_NAME = "vectors"
# Digests that are looked for at a time.
_PART = 4_096


class VectorStore:
    """The vectors that one model made."""

    def __init__(self, uri: str, probe: np.ndarray) -> None:
        """Open the store, or begin one; vectors of other weights are dropped.

        Args:
            uri: A folder or an object store's URI.
            probe: float32 `(dims,)`, the vector by which a model is told from another.

        Raises:
            SettingError: the place cannot be used.
        """
        self._uri = uri
        self._dims = len(probe)
        schema = pa.schema(
            [
                ("digest", pa.string()),
                ("truncated", pa.bool_()),
                ("written_s", pa.int64()),
                ("vector", pa.list_(pa.float32(), len(probe))),
            ],
            probe_metadata(probe),
        )
        with storing(uri):
            database = lancedb.connect(uri)
            self._table = begin(database, _NAME, schema)
            if float(probe_of(self._table.schema.metadata) @ probe) < SAME_MODEL:
                self._table = database.create_table(_NAME, schema=schema, mode="overwrite")

    def get(self, digests: Sequence[str]) -> dict[str, tuple[np.ndarray, bool]]:
        """Return the vectors that are there, and whether only a text's beginning was read."""
        found: dict[str, tuple[np.ndarray, bool]] = {}
        with storing(self._uri):
            self._table.checkout_latest()
            for start in range(0, len(digests), _PART):
                rows = self._table.search().where(is_in("digest", digests[start : start + _PART]))
                there = rows.select(["digest", "truncated", "vector"]).to_arrow()
                pairs = zip(matrix(there["vector"]), there["truncated"].to_pylist(), strict=True)
                found |= dict(zip(there["digest"].to_pylist(), pairs, strict=True))
        return found

    def put(self, vectors: Mapping[str, tuple[np.ndarray, bool]]) -> None:
        """Add vectors of length 1 by digest."""
        if not vectors:
            return
        values = np.stack([vector for vector, _ in vectors.values()]).astype(np.float32)
        rows = pa.table(
            [
                pa.array(list(vectors)),
                pa.array([truncated for _, truncated in vectors.values()]),
                pa.array([int(time.time())] * len(vectors), pa.int64()),
                pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), self._dims),
            ],
            schema=self._table.schema,
        )
        with storing(self._uri):
            commit(self._table, lambda: self._table.add(rows))

    def tidy(self) -> None:
        """Drop the older half of too many, and put small pieces together."""
        with storing(self._uri):
            if self._table.count_rows() > MAX_VECTORS:
                times = self._table.search().select(["written_s"]).to_arrow()["written_s"]
                middle = int(np.median(times.to_numpy()))
                commit(self._table, lambda: self._table.delete(f"written_s <= {middle}"))
            if self._table.stats()["fragment_stats"]["num_fragments"] > MAX_PIECES:
                commit(
                    self._table,
                    lambda: self._table.optimize(cleanup_older_than=KEEP_VERSIONS),
                )
