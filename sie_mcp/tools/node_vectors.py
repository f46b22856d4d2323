"""The vectors of a taxonomy's nodes for one model: computed once, kept on disk, mapped into memory.

What a node's vector is made of is in `node_views`. Only the worker's answers are kept here; nothing
depends on who asks.
"""

import hashlib
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
from filelock import FileLock

from sie_mcp.catalogue.taxonomy import Taxonomy
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import ModelLoading, SettingError
from sie_mcp.tools.long_work import acquire, is_late
from sie_mcp.tools.node_views import NODES, Views
from sie_mcp.tools.outputs import write_atomically
from sie_mcp.tools.vectors import PROBE, SAME_MODEL, Vectors, embed_texts

logger = logging.getLogger(__name__)

# Texts that are kept together while vectors are built, so that a call cut short loses little.
PART_TEXTS = 512


@dataclass(frozen=True, slots=True)
class NodeVectors:
    """float32 `(num_nodes, dims)` in the order of the taxonomy, and the model that made them.

    `probe` is one known text's vector `(dims,)`, by which the model's weights are told.
    """

    model: str
    values: np.ndarray
    probe: np.ndarray


class NodeVectorStore:
    """Reads and builds node vectors in `folder`; safe for many processes at once."""

    def __init__(self, client: EngineClient, folder: Path) -> None:
        self._client = client
        self._folder = folder

    async def get(
        self, model: str, taxonomy: Taxonomy, progress: Progress, views: Views = NODES
    ) -> NodeVectors:
        """Return a taxonomy's vectors; the first call for a model builds them.

        Raises:
            ModelLoading: the call's deadline comes first; what is done is kept for the next call.
            SettingError: the cache folder cannot be written.
            SieError: what the worker answered.
        """
        probe = await embed_texts(self._client, model, [PROBE], progress=progress)
        key = f"{taxonomy.digest}{views.name}".encode()
        name = f"{_short(key)}-{_short(probe.model.encode())}"
        file = self._folder / f"{name}.npy"
        values = _load(file, len(taxonomy.paths), probe.values)
        if values is None:
            try:
                values = await self._build_once(file, taxonomy, probe, progress, views)
            except OSError as error:
                raise SettingError(
                    f"cache_dir: {self._folder} cannot be written ({error.strerror})"
                ) from error
        return NodeVectors(probe.model, values, probe.values[0])

    async def _build_once(
        self, file: Path, taxonomy: Taxonomy, probe: Vectors, progress: Progress, views: Views
    ) -> np.ndarray:
        """Build under a lock, unless another process did while this one waited."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file.with_suffix(".lock"))
        await acquire(lock, progress, "another process is preparing this taxonomy")
        try:
            values = _load(file, len(taxonomy.paths), probe.values)
            if values is None:
                values = await self._build(file, taxonomy, probe, progress, views)
            return values
        finally:
            lock.release()

    async def _build(
        self, file: Path, taxonomy: Taxonomy, probe: Vectors, progress: Progress, views: Views
    ) -> np.ndarray:
        """Encode every different text of the views, then combine them."""
        # Short ones together, for even batches.
        texts = sorted(set(views.texts(taxonomy)), key=lambda text: (len(text), text))
        parts = file.with_suffix(".parts")
        parts.mkdir(exist_ok=True)
        vectors = await self._encode(texts, parts, taxonomy.name, probe, progress, views)
        rows = {text: row for row, text in enumerate(texts)}
        combined = await anyio.to_thread.run_sync(views.combine, taxonomy, rows, vectors)
        _save(file, probe.values, combined)
        shutil.rmtree(parts, ignore_errors=True)
        return combined

    async def _encode(
        self,
        texts: Sequence[str],
        parts: Path,
        name: str,
        probe: Vectors,
        progress: Progress,
        views: Views,
    ) -> np.ndarray:
        """Encode in parts; those that an earlier call left behind are not encoded again."""
        blocks = []
        longest_s = 0.0
        for start in range(0, len(texts), PART_TEXTS):
            block, part = texts[start : start + PART_TEXTS], parts / f"{start}.npy"
            values = _load(part, len(block), probe.values)
            if values is None:
                if longest_s and is_late(longest_s):
                    raise ModelLoading(
                        f"taxonomy {name} is being prepared, once: {start:,} of {len(texts):,} "
                        "names are done, and the next call goes on from there"
                    )
                await progress(start, len(texts), f"preparing taxonomy {name}, once")
                started_s = anyio.current_time()
                values = await self._part(block, probe, views)
                _save(part, probe.values, values)
                longest_s = max(longest_s, anyio.current_time() - started_s)
            blocks.append(values)
        return np.concatenate(blocks)

    async def _part(self, texts: Sequence[str], probe: Vectors, views: Views) -> np.ndarray:
        vectors = await views.encode(self._client, probe.model, texts)
        if vectors.failed:
            failed = [texts[place] for place in vectors.failed]
            raise views.failure(failed, next(iter(vectors.failed.values())).message)
        return vectors.values


def _save(file: Path, probe: np.ndarray, values: np.ndarray) -> None:
    rows = np.concatenate([probe, values]).astype(np.float32)
    write_atomically(file, lambda out: np.save(out, rows, allow_pickle=False))


def _load(file: Path, num_rows: int, probe: np.ndarray) -> np.ndarray | None:
    """Map a file's vectors; None when there is none, or it is broken or another model's."""
    try:
        rows = np.lib.format.open_memmap(file, mode="r")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        logger.warning("taxonomy vectors unreadable, building them again file=%s: %s", file, error)
        return None
    is_right = rows.dtype == np.float32 and rows.shape == (num_rows + 1, probe.shape[1])
    if not is_right or float(rows[0] @ probe[0]) < SAME_MODEL:
        logger.info("taxonomy vectors are another model's, building them again file=%s", file)
        return None
    values: np.ndarray = rows[1:]
    return values


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
