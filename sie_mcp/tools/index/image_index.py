"""The index of an allowed folder's pictures for one model: a vector each, kept by their bytes.

A picture whose size and time are as they were is not read; one whose bytes are known, under
whatever name, is not sent again. Written in parts: what a call leaves off the next finds done.
"""

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import numpy as np
from filelock import BaseFileLock

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.config import Config
from sie_mcp.errors import InvalidInput, ModelLoading
from sie_mcp.tools.image_files import digest_of, item_of, parts_of, read_image
from sie_mcp.tools.index.encoder import Encoder
from sie_mcp.tools.index.folder_index import open_store
from sie_mcp.tools.index.found import File, Found
from sie_mcp.tools.index.places import store_place
from sie_mcp.tools.index.rows import Known, Row, StoredChunk
from sie_mcp.tools.index.update import changed, gone
from sie_mcp.tools.long_work import acquire, is_late

if TYPE_CHECKING:
    from sie_mcp.tools.index.store import Store

# Vectors made in another way must not be met in an index.
RULES = "images.1"
_VECTORS = wire.EncodeParams(output_types=["dense"], options=wire.EncodeOptions(normalize=True))


@dataclass(frozen=True, slots=True)
class _Read:
    """A picture as it was when it was read; `problem` says why it has no bytes."""

    file: File
    read_ns: int
    data: bytes
    problem: str

    @property
    def digest(self) -> str:
        """What tells its bytes from others; "" where there are none."""
        return digest_of(self.data) if self.data else ""


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """An open index, and what is known of its pictures."""

    store: "Store"
    known: dict[str, Known]

    async def search(self, vector: np.ndarray, found: Found, k: int) -> list[tuple[str, float]]:
        """Return the keys of the nearest of the found pictures and their cosines, best first."""
        return await anyio.to_thread.run_sync(self._search, vector, found, k)

    def _search(self, vector: np.ndarray, found: Found, k: int) -> list[tuple[str, float]]:
        paths: Collection[str] | None = found.files
        if found.files.keys() >= self.known.keys():
            paths = None
        hits = self.store.nearest(vector, k, paths)
        # Two machines that wrote at once may have written the same picture twice.
        best = {one.path: score for one, score in reversed(hits) if one.path in found.files}
        return sorted(best.items(), key=lambda one: -one[1])


async def open_image_index(
    client: EngineClient, config: Config, encoder: Encoder, found: Found, progress: Progress
) -> ImageIndex:
    """Open the index of the pictures' allowed folder and bring it up to date.

    Raises:
        InvalidInput: LanceDB is not installed.
        ModelLoading: it is not done before the call's deadline; the next call goes on.
        SettingError: index_dir or cache_dir cannot be used.
    """
    dims = str(len(encoder.probe))
    place = store_place(config, str(found.root), encoder.model, RULES, dims)
    store, lock = await open_store(place, encoder, progress)
    updater = _Updater(store, client, encoder.model, config, lock)
    return ImageIndex(store, await updater.update(found, progress))


@dataclass(frozen=True, slots=True)
class _Updater:
    store: "Store"
    client: EngineClient
    model: str
    config: Config
    lock: BaseFileLock

    async def update(self, found: Found, progress: Progress) -> dict[str, Known]:
        known = await anyio.to_thread.run_sync(self.store.known)
        if not changed(found, known) and not gone(found, known):
            return known
        await acquire(self.lock, progress, "another process is indexing these pictures")
        try:
            known = await anyio.to_thread.run_sync(self.store.known)
            await self._write_all(changed(found, known), progress)
            await anyio.to_thread.run_sync(self.store.remove, gone(found, known))
            await anyio.to_thread.run_sync(self.store.tidy)
            return await anyio.to_thread.run_sync(self.store.known)
        finally:
            self.lock.release()

    async def _write_all(self, files: Sequence[File], progress: Progress) -> None:
        num_done, longest_s = 0, 0.0
        for part in parts_of(files):
            if longest_s and is_late(longest_s):
                raise ModelLoading(
                    f"the pictures are being indexed, once: {num_done:,} of {len(files):,} are "
                    "done, and the next call goes on from there"
                )
            await progress(num_done, len(files), "indexing pictures, once")
            started_s = anyio.current_time()
            await self._write(part)
            longest_s = max(longest_s, anyio.current_time() - started_s)
            num_done += len(part)

    async def _write(self, files: Sequence[File]) -> None:
        pictures = await anyio.to_thread.run_sync(self._read_all, files)
        digests = {one.digest for one in pictures if one.digest}
        vectors, problems = await self._vectors(pictures, digests) if digests else ({}, {})
        rows = [
            Row(StoredChunk(one.file.key, 0, "line", 1, 1, ""), one.digest, vectors[one.digest])
            for one in pictures
            if one.digest in vectors
        ]
        await anyio.to_thread.run_sync(self.store.put, rows)
        marks = [_known(one, one.digest in vectors, problems.get(one.digest)) for one in pictures]
        await anyio.to_thread.run_sync(self.store.mark, marks)

    def _read_all(self, files: Sequence[File]) -> list[_Read]:
        return [_read(file, self.config) for file in files if os.path.lexists(file.path.path)]

    async def _vectors(
        self, pictures: Sequence[_Read], digests: set[str]
    ) -> tuple[dict[str, np.ndarray], dict[str, wire.ItemError]]:
        """Return vectors by digest, those that are there and new ones; and why others have none."""
        vectors = await anyio.to_thread.run_sync(self.store.vectors, digests)
        new = {one.digest: one.data for one in pictures if one.data and one.digest not in vectors}
        problems: dict[str, wire.ItemError] = {}
        if new:
            items = [item_of(data) for data in new.values()]
            answer = await self.client.encode(self.model, items, _VECTORS)
            for digest, item in zip(new, answer.items, strict=True):
                if item.error is not None:
                    problems[digest] = item.error
                elif item.dense is not None:
                    vectors[digest] = item.dense.values.astype(np.float32, copy=False)
        return vectors, problems


def _read(file: File, config: Config) -> _Read:
    read_ns = time.time_ns()
    try:
        return _Read(file, read_ns, read_image(file.path, config), "")
    except InvalidInput as error:
        return _Read(file, read_ns, b"", str(error))


def _known(one: _Read, has_vector: bool, error: wire.ItemError | None) -> Known:
    """Return what is kept of a picture; what may go better next time is read again."""
    problem = one.problem
    if error is not None and error.code == "INVALID_IMAGE":
        problem = f"{one.file.path.name}: {error.message}"
    return Known(
        path=one.file.key,
        size=one.file.size,
        mtime_ns=one.file.mtime_ns,
        digest=one.digest if has_vector else "",
        read_ns=one.read_ns,
        num_chunks=int(has_vector),
        problem=problem,
    )
