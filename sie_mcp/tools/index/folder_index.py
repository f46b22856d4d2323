"""The index of one allowed folder for one model: its place, its state, its search."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import numpy as np

from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.tools.index import chunks
from sie_mcp.tools.index.encoder import Encoder, Question
from sie_mcp.tools.index.found import Found
from sie_mcp.tools.index.fusion import fuse
from sie_mcp.tools.index.places import store_place
from sie_mcp.tools.index.rows import Excluded, Known, StoredChunk
from sie_mcp.tools.index.update import Updater
from sie_mcp.tools.long_work import acquire
from sie_mcp.tools.optional import load
from sie_mcp.tools.vectors import SAME_MODEL

if TYPE_CHECKING:
    from sie_mcp.tools.index.store import Store


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """An open index and what is known of its files."""

    store: "Store"
    known: dict[str, Known]

    async def search(
        self, question: Question, found: Found, k: int
    ) -> list[tuple[StoredChunk, float]]:
        """Return the best chunks of the found files by meaning and by words, best first."""
        return await anyio.to_thread.run_sync(self._search, question, found, k)

    async def similar(
        self, vectors: np.ndarray, found: Found, k: int, besides: Excluded | None
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks of the found files most like any of some vectors, with the cosine.

        Args:
            vectors: float32 `(num_vectors, dims)`, of length 1.
            found: The files.
            k: How many.
            besides: What is left out.
        """
        best: dict[StoredChunk, float] = {}
        for vector in vectors:
            hits = await anyio.to_thread.run_sync(
                self.store.nearest, vector, k, self._paths(found), besides
            )
            for chunk, score in hits:
                if chunk.path in found.files:
                    best[chunk] = max(score, best.get(chunk, -1.0))
        order = sorted(best.items(), key=lambda hit: (-hit[1], hit[0].path, hit[0].number))
        return order[:k]

    async def read(self, found: Found) -> tuple[list[StoredChunk], np.ndarray]:
        """Return all chunks of the found files, in order, and their vectors."""
        chunks, vectors = await anyio.to_thread.run_sync(self.store.read, self._paths(found))
        kept = [place for place, chunk in enumerate(chunks) if chunk.path in found.files]
        return [chunks[place] for place in kept], vectors[kept]

    def _search(self, question: Question, found: Found, k: int) -> list[tuple[StoredChunk, float]]:
        paths = self._paths(found)
        nearest = self.store.nearest(question.vector, k, paths)
        rankings = [
            [chunk for chunk, _ in nearest],
            self.store.matching(question.text, k, paths),
        ]
        there = [
            list(dict.fromkeys(hit for hit in ranking if hit.path in found.files))
            for ranking in rankings
        ]
        return fuse([ranking for ranking in there if ranking])[:k]

    def _paths(self, found: Found) -> Collection[str] | None:
        """Return which files to filter by: none where all that there is is wanted, as is faster."""
        return None if found.files.keys() >= self.known.keys() else found.files


async def open_index(
    client: EngineClient, config: Config, encoder: Encoder, found: Found, progress: Progress
) -> FolderIndex:
    """Open the index of the files' allowed folder and bring it up to date.

    Raises:
        InvalidInput: LanceDB is not installed, or the index would be too large.
        ModelLoading: it is not done before the call's deadline; the next call goes on.
        SettingError: index_dir or cache_dir cannot be used.
    """
    dims = str(len(encoder.probe))
    place = store_place(config, str(found.root), encoder.model, chunks.RULES, dims)
    lock = place.lock()
    store = await anyio.to_thread.run_sync(_open, place.uri)
    if not _is_same_model(store, encoder):
        await acquire(lock, progress, "another process is indexing this folder")
        try:
            # Another process may have made it meanwhile, and filled it.
            store = await anyio.to_thread.run_sync(_open, place.uri)
            if not _is_same_model(store, encoder):
                await anyio.to_thread.run_sync(store.make, encoder.probe)
        finally:
            lock.release()
    updater = Updater(store, client, encoder.model, config.max_file_bytes, lock)
    return FolderIndex(store, await updater.update(found, progress))


def _open(uri: str) -> "Store":
    store: Store = load("sie_mcp.tools.index.store").Store(uri)
    return store


def _is_same_model(store: "Store", encoder: Encoder) -> bool:
    return store.is_made and float(store.probe @ encoder.probe) >= SAME_MODEL
