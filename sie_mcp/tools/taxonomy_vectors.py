"""Vectors of a taxonomy's categories: made once for each model, kept on disk, mapped into memory.

A large taxonomy is embedded in slices that are kept one by one: a call that runs out of time leaves
its work behind, and the next one goes on from there.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.embed import vectors_of
from sie_mcp.tools.taxonomy import Taxonomy

SLICE = 1_024


@dataclass(frozen=True, slots=True)
class NodeVectors:
    """Unit vectors of each category: of its full path and of its own name, `(num_nodes, dims)`."""

    paths: np.ndarray
    leaves: np.ndarray


async def node_vectors(
    client: EngineClient,
    taxonomy: Taxonomy,
    model: str,
    cache_dir: Path,
    progress: Progress | None,
) -> NodeVectors:
    """Return the vectors, from disk where they are, made by `model` where not."""
    leaves = sorted({node.leaf for node in taxonomy.nodes})
    texts = [node.full_path for node in taxonomy.nodes] + leaves
    table = await _table(client, texts, taxonomy, model, cache_dir, progress)
    num_nodes = len(taxonomy.nodes)
    places = {leaf: place + num_nodes for place, leaf in enumerate(leaves)}
    rows = [places[node.leaf] for node in taxonomy.nodes]
    return NodeVectors(paths=table[:num_nodes], leaves=table[rows])


async def _table(
    client: EngineClient,
    texts: Sequence[str],
    taxonomy: Taxonomy,
    model: str,
    cache_dir: Path,
    progress: Progress | None,
) -> np.ndarray:
    """Return one vector a text, float32; whole from disk, or slice by slice."""
    key = hashlib.sha256(f"{taxonomy.digest} {model}".encode()).hexdigest()[:24]
    folder = cache_dir / "taxonomies"
    whole = folder / f"{key}.npy"
    if whole.exists():
        mapped: np.ndarray = np.load(whole, mmap_mode="r", allow_pickle=False)
        return mapped
    folder.mkdir(parents=True, exist_ok=True)
    slices: list[np.ndarray] = []
    for start in range(0, len(texts), SLICE):
        if progress:
            await progress(start, len(texts), f"embedding the categories of {taxonomy.name} once")
        part = folder / f"{key}.{start // SLICE:04}.npy"
        if part.exists():
            slices.append(np.load(part, allow_pickle=False))
            continue
        items = [wire.Item(text=text) for text in texts[start : start + SLICE]]
        vectors, _ = await vectors_of(client, items, model, None)
        _save(part, vectors)
        slices.append(vectors)
    table = np.concatenate(slices)
    _save(whole, table)
    for part in folder.glob(f"{key}.*.npy"):
        part.unlink(missing_ok=True)
    return table


def _save(path: Path, array: np.ndarray) -> None:
    """Write beside the place and move there: several processes may do the same work."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.save(file, array, allow_pickle=False)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
