"""Keeps an index as the files are: reads what changed, embeds what is new, drops what is gone.

A file whose size and time are as they were is not read; one whose bytes are as they were is not
cut; a chunk that is there already, in whatever file, is not embedded. Written in parts, so that
what a call leaves off the next one finds done.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import numpy as np
from filelock import BaseFileLock

from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput, ModelLoading
from sie_mcp.tools.index.chunks import Chunk
from sie_mcp.tools.index.found import File, Found
from sie_mcp.tools.index.reading import Content, read_content
from sie_mcp.tools.index.rows import Known, Row, StoredChunk
from sie_mcp.tools.long_work import acquire, is_late
from sie_mcp.tools.vectors import embed_texts

if TYPE_CHECKING:
    from sie_mcp.tools.index.store import Store

MAX_CHUNKS = 200_000
# Chunks that are embedded and written together, so that a call cut short loses little.
PART_CHUNKS = 128
# A change so soon after the reading may not show in a file's time.
UNSURE_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """Chunks to write together, and the files whose last chunk is among them."""

    chunks: list[tuple[File, Content, int, Chunk]] = field(default_factory=list)
    ended: list[tuple[File, Content]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Updater:
    """What is needed to bring an index up to date."""

    store: "Store"
    client: EngineClient
    model: str
    max_bytes: int
    lock: BaseFileLock

    async def update(self, found: Found, progress: Progress) -> dict[str, Known]:
        """Make the index as the files are; return what is known of all its files.

        Raises:
            ModelLoading: the call's deadline comes first; the next call goes on.
            InvalidInput: more chunks than an index may hold.
            SettingError: the index cannot be written.
        """
        known = await anyio.to_thread.run_sync(self.store.known)
        if not changed(found, known) and not gone(found, known):
            return known
        await acquire(self.lock, progress, "another process is indexing this folder")
        try:
            # What it did need not be done again.
            known = await anyio.to_thread.run_sync(self.store.known)
            await self._write_all(found, known, progress)
            # Last, as a file that was moved still gives its vectors.
            await anyio.to_thread.run_sync(self.store.remove, gone(found, known))
            await anyio.to_thread.run_sync(self.store.tidy)
            return await anyio.to_thread.run_sync(self.store.known)
        finally:
            self.lock.release()

    async def _write_all(self, found: Found, known: dict[str, Known], progress: Progress) -> None:
        files = changed(found, known)
        left = MAX_CHUNKS - await anyio.to_thread.run_sync(self.store.count)
        left += sum(known[path].num_chunks for path in gone(found, known))
        num_done = 0
        longest_s = 0.0
        begun = ""
        failed: set[str] = set()
        async for part in self._parts(files, known, left):
            if longest_s and is_late(longest_s):
                raise ModelLoading(
                    f"the folder is being indexed, once: {num_done:,} of {len(files):,} files "
                    f"are done{begun}, and the next call goes on from there"
                )
            await progress(num_done, len(files), "indexing files, once")
            started_s = anyio.current_time()
            await self._write(part, known, failed)
            longest_s = max(longest_s, anyio.current_time() - started_s)
            num_done += len(part.ended)
            begun = _begun(part)

    async def _parts(
        self, files: list[File], known: dict[str, Known], left: int
    ) -> AsyncIterator[Part]:
        """Read files one after the other; yield their chunks in parts, `left` at most."""
        part = Part()
        for file in files:
            before = known.get(file.key)
            content = await anyio.to_thread.run_sync(
                read_content, file.path, self.max_bytes, before.digest if before else ""
            )
            if content is None:
                continue
            left -= len(content.chunks) - (before.num_chunks if before and content.chunks else 0)
            if left < 0:
                raise InvalidInput(
                    f"paths: {file.path.name} would be over {MAX_CHUNKS:,} chunks, the limit of "
                    "an index; search a folder below, or leave large files out with .gitignore"
                )
            for number, chunk in enumerate(content.chunks):
                if len(part.chunks) == PART_CHUNKS:
                    yield part
                    part = Part()
                part.chunks.append((file, content, number, chunk))
            part.ended.append((file, content))
        if part.ended:
            yield part

    async def _write(self, part: Part, known: dict[str, Known], failed: set[str]) -> None:
        """Embed and write; a file of which a chunk failed is read again by the next call."""
        digests = [_digest(chunk.embedded) for _, _, _, chunk in part.chunks]
        vectors = await self._vectors(part, digests)
        failed |= {
            file.key
            for (file, *_), digest in zip(part.chunks, digests, strict=True)
            if digest not in vectors
        }
        rows = [
            Row(_stored(file, content, number, chunk), digest, vectors[digest])
            for (file, content, number, chunk), digest in zip(part.chunks, digests, strict=True)
            if digest in vectors
        ]
        await anyio.to_thread.run_sync(self.store.put, rows)
        marks = [
            _known(file, content, known.get(file.key), file.key in failed)
            for file, content in part.ended
        ]
        await anyio.to_thread.run_sync(self.store.mark, marks)

    async def _vectors(self, part: Part, digests: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the vectors by digest: those that are there, and new ones of the others."""
        if not digests:
            return {}
        vectors = await anyio.to_thread.run_sync(self.store.vectors, set(digests))
        new = {
            digest: chunk.embedded
            for (_, _, _, chunk), digest in zip(part.chunks, digests, strict=True)
            if digest not in vectors
        }
        if new:
            made = await embed_texts(self.client, self.model, list(new.values()), may_be_none=True)
            names = list(new)
            vectors |= {
                names[place]: row for place, row in zip(made.kept, made.values, strict=True)
            }
        return vectors


def _begun(part: Part) -> str:
    """Say how much is done of a file that a part leaves unfinished: one can outlast many calls."""
    file, content, number, _ = part.chunks[-1] if part.chunks else (None, None, 0, None)
    if file is None or content is None or (file, content) in part.ended:
        return ""
    return f" and {number + 1:,} of {len(content.chunks):,} passages of {file.path.name}"


def _stored(file: File, content: Content, number: int, chunk: Chunk) -> StoredChunk:
    return StoredChunk(file.key, number, content.unit, chunk.start, chunk.end, chunk.text)


def changed(found: Found, known: dict[str, Known]) -> list[File]:
    """Return files that are new, or not as they were."""
    return [file for file in found.files.values() if not _is_as_known(file, known.get(file.key))]


def _is_as_known(file: File, known: Known | None) -> bool:
    return (
        known is not None
        and (known.size, known.mtime_ns) == (file.size, file.mtime_ns)
        and bool(known.digest or known.problem)
        and known.mtime_ns < known.read_ns - UNSURE_NS
    )


def gone(found: Found, known: dict[str, Known]) -> list[str]:
    """Return files that were in the folders gone through, and are no longer on disk."""
    return [
        path
        for path in known
        if path not in found.files and found.is_below(path) and not os.path.lexists(path)
    ]


def _known(file: File, content: Content, before: Known | None, has_failed: bool) -> Known:
    if before and content.digest and content.digest == before.digest:
        return replace(
            before, size=content.size, mtime_ns=content.mtime_ns, read_ns=content.read_ns
        )
    return Known(
        path=file.key,
        size=content.size,
        mtime_ns=content.mtime_ns,
        digest="" if has_failed else content.digest,
        read_ns=content.read_ns,
        num_chunks=len(content.chunks),
        problem=content.problem,
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
