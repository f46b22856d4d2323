"""The index of one allowed folder for one model: its place, its state, its search."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import numpy as np
from filelock import FileLock

from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.errors import InferenceError, SettingError
from sie_mcp.tools.index import chunks
from sie_mcp.tools.index.found import Found
from sie_mcp.tools.index.fusion import fuse
from sie_mcp.tools.index.rows import Known, StoredChunk
from sie_mcp.tools.index.update import Updater
from sie_mcp.tools.long_work import acquire
from sie_mcp.tools.optional import load
from sie_mcp.tools.vectors import PROBE, SAME_MODEL, embed_texts

if TYPE_CHECKING:
    from sie_mcp.tools.index.store import Store


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the model reads it, and the probe that tells the model from another.

    Attributes:
        vector: float32 `(dims,)`.
        probe: float32 `(dims,)`.
    """

    text: str
    model: str
    vector: np.ndarray
    probe: np.ndarray


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

    def _search(self, question: Question, found: Found, k: int) -> list[tuple[StoredChunk, float]]:
        # Without a filter where the search is over all that there is, which is faster.
        paths: Collection[str] | None = found.files
        if found.files.keys() >= self.known.keys():
            paths = None
        rankings = [
            self.store.nearest(question.vector, k, paths),
            self.store.matching(question.text, k, paths),
        ]
        there = [
            list(dict.fromkeys(hit for hit in ranking if hit.path in found.files))
            for ranking in rankings
        ]
        return fuse([ranking for ranking in there if ranking])[:k]


async def ask(client: EngineClient, model: str, query: str, progress: Progress) -> Question:
    """Embed a query, and with it the probe.

    Raises:
        InferenceError: one of them has no vector.
    """
    vectors = await embed_texts(client, model, [query, PROBE], is_query=True, progress=progress)
    if vectors.failed:
        raise InferenceError(f"the query has no vector: {vectors.failed.popitem()[1].message}")
    return Question(query, vectors.model, vectors.values[0], vectors.values[1])


async def open_index(
    client: EngineClient, config: Config, question: Question, found: Found, progress: Progress
) -> FolderIndex:
    """Open the index of the files' allowed folder and bring it up to date.

    Raises:
        InvalidInput: LanceDB is not installed, or the index would be too large.
        ModelLoading: it is not done before the call's deadline; the next call goes on.
        SettingError: index_dir or cache_dir cannot be used.
    """
    store, lock = await open_store(config, question, found.root, chunks.RULES, progress)
    updater = Updater(store, client, question.model, config.max_file_bytes, lock)
    return FolderIndex(store, await updater.update(found, progress))


async def open_store(
    config: Config, question: Question, root: Path, rules: str, progress: Progress
) -> tuple["Store", FileLock]:
    """Open the store of a folder and a model, made anew where it is another model's; and its lock.

    Args:
        config: Says where indexes are.
        question: Its model and probe.
        root: The allowed folder.
        rules: Name how what is stored was made.
        progress: Hears what is waited for.

    Raises:
        InvalidInput: LanceDB is not installed.
        SettingError: index_dir or cache_dir cannot be used.
    """
    key = _key(root, question, rules)
    place = config.index_dir or str(config.cache_dir / "indexes")
    # An object store has no locks: there processes of one machine wait for each other.
    locks = _made(config.cache_dir / "locks" if "://" in place else Path(place).expanduser())
    lock = FileLock(locks / f"{key}.lock")
    uri = f"{place.rstrip('/')}/{key}" if "://" in place else str(locks / key)
    store = await anyio.to_thread.run_sync(_open, uri)
    if not _is_same_model(store, question):
        await acquire(lock, progress, "another process is indexing this folder")
        try:
            # Another process may have made it meanwhile, and filled it.
            store = await anyio.to_thread.run_sync(_open, uri)
            if not _is_same_model(store, question):
                await anyio.to_thread.run_sync(store.make, question.probe)
        finally:
            lock.release()
    return store, lock


def _open(uri: str) -> "Store":
    store: Store = load("sie_mcp.tools.index.store").Store(uri)
    return store


def _is_same_model(store: "Store", question: Question) -> bool:
    return store.is_made and float(store.probe @ question.probe) >= SAME_MODEL


def _key(root: Path, question: Question, rules: str) -> str:
    parts = (str(root), question.model, rules, str(len(question.probe)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _made(folder: Path) -> Path:
    """Make a folder for this user alone: an index holds the texts of files.

    Raises:
        SettingError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingError(f"{folder} cannot be made ({error.strerror})") from error
    return folder
