"""Every category of one taxonomy in another, resumable, and kept for the next call of its kind.

The journal lies in the cache and stays: what was mapped once is read. It holds numbers alone, so
that no text of a caller's taxonomy comes to lie on this machine's disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np
from filelock import FileLock

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.client import Progress
from sie_mcp.errors import SettingError
from sie_mcp.tools.categories.block_run import Block, BlockRun, Work, broken, open_journal
from sie_mcp.tools.categories.choice import Classified
from sie_mcp.tools.categories.journal import Journal
from sie_mcp.tools.classification import Classifier
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.long_work import acquire
from sie_mcp.tools.node_vectors import NodeVectorStore
from sie_mcp.tools.node_views import TextViews, pair

# A block takes a few seconds on one core, whatever the target's size: a call cut short loses one.
MAX_BLOCK_NODES, BLOCK_PAIRS = 256, 2_000_000
# One of 10,000 categories takes 1 MB.
MAX_KEPT = 32

# A category of the target: a node at or below it, and its number of levels.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """What a category of the source comes to: places in the target, likeliest first."""

    places: list[Place]
    confidence: float


async def map_nodes(
    classifier: Classifier,
    source: Taxonomy,
    store: NodeVectorStore,
    folder: Path,
    progress: Progress,
) -> tuple[list[Counterpart], int]:
    """Map the nodes of `source`, in order; return with them how many earlier calls had mapped.

    Raises:
        InvalidInput: a name cannot be encoded.
        DeadlineExceeded: the call's deadline comes first; what is done is kept for the next call.
        SettingError: the folder cannot be written.
        SieError: what the worker answered.
    """
    place = await anyio.to_thread.run_sync(_make, folder)
    journal = open_journal(classifier, place, "mapping", source.digest)
    # A few locks for all: who waits for another's mapping by chance waits once.
    lock = FileLock(folder / f"{Path(journal.shown).stem[-1]}.lock")
    try:
        await acquire(lock, progress, "another call is mapping these taxonomies")
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        with journal:
            return await _mapped(classifier, source, store, folder, journal, progress)
    finally:
        lock.release()


async def _mapped(
    classifier: Classifier,
    source: Taxonomy,
    store: NodeVectorStore,
    folder: Path,
    journal: Journal,
    progress: Progress,
) -> tuple[list[Counterpart], int]:
    num_nodes, places = len(source.paths), _places(classifier.taxonomy)
    work = Work(
        num_nodes,
        lambda text: _entry(text, places),
        is_calibrated=True,
        doing="mapping categories",
        done="categories are mapped",
    )
    run = BlockRun(classifier, journal, work, progress)
    resumed = run.num_done
    if not resumed:
        await anyio.to_thread.run_sync(_drop_oldest, folder)
    if resumed < num_nodes:
        views = TextViews("source")
        vectors = [
            (await store.get(reader.model, source, progress, views)).values
            for reader in classifier.readers
        ]
        await run.classify(_blocks(source, vectors, journal, len(classifier.taxonomy.paths)))
    return await anyio.to_thread.run_sync(_read, journal, source, classifier), resumed


def _make(folder: Path) -> AllowedPath:
    """Make the folder, and return a place in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
    except OSError as error:
        raise _unwritable(folder, error) from error
    return AllowedPath(folder, folder / "mapping", "this mapping")


def _unwritable(folder: Path, error: OSError) -> SettingError:
    return SettingError(f"cache_dir: {folder} cannot be written ({error.strerror})")


def _drop_oldest(folder: Path) -> None:
    """Drop what was written to the longest ago, until there are not too many."""
    files = sorted(folder.glob(".sie-*.journal"), key=lambda file: file.stat().st_mtime_ns)
    # One that another call is at is still written to its end; it is not found again.
    for file in files[:-MAX_KEPT]:
        file.unlink(missing_ok=True)


def _blocks(
    source: Taxonomy, vectors: Sequence[np.ndarray], journal: Journal, num_target: int
) -> Iterator[Block]:
    left = [node for node in range(len(source.paths)) if str(node) not in journal]
    step = max(1, min(MAX_BLOCK_NODES, BLOCK_PAIRS // num_target))
    for start in range(0, len(left), step):
        nodes = left[start : start + step]
        yield Block(
            [str(node) for node in nodes],
            # A name under its parent's is what tells most; its own words count as a title's do.
            [pair(source.paths[node]) for node in nodes],
            heads=[source.paths[node][-1] for node in nodes],
            vectors=[values[nodes] for values in vectors],
        )


def _places(target: Taxonomy) -> dict[tuple[str, ...], Place]:
    """Return the place of each node, and of each level that is only a part of longer paths."""
    places: dict[tuple[str, ...], Place] = {}
    for node, path in enumerate(target.paths):
        for depth in range(1, len(path) + 1):
            places.setdefault(path[:depth], (node, depth))
    return places


def _entry(text: Classified, places: dict[tuple[str, ...], Place]) -> list[Any]:
    found = [places[tuple(category.path.split(SEPARATOR))] for category in text.categories]
    return [found, text.confidence]


def _read(journal: Journal, source: Taxonomy, classifier: Classifier) -> list[Counterpart]:
    num_nodes = len(classifier.taxonomy.paths)
    found = []
    for node in range(len(source.paths)):
        try:
            places, confidence = journal[str(node)]
            one = Counterpart([(int(at), int(depth)) for at, depth in places], float(confidence))
        except (KeyError, TypeError, ValueError) as error:
            raise broken(journal) from error
        if not one.places or any(not 0 <= at < num_nodes for at, _ in one.places):
            raise broken(journal)
        found.append(one)
    return found
