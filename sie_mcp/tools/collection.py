"""Texts with their vectors: rows of a call or of a table, files or passages of a folder."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import anyio.to_thread
import numpy as np
from pydantic import Field

from sie_mcp.client import Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.failures import Failures, failures
from sie_mcp.tools.index.encoder import Encoder, find_encoder
from sie_mcp.tools.index.folder_index import FolderIndex, open_index
from sie_mcp.tools.index.found import Found, find_files
from sie_mcp.tools.index.rows import StoredChunk
from sie_mcp.tools.inputs import Inputs, TextItem, read_inputs
from sie_mcp.tools.passages import Skipped, num_incomplete, place_of, skipped_files
from sie_mcp.tools.patterns import is_pattern
from sie_mcp.tools.result import Result, or_none
from sie_mcp.tools.text_vectors import whole_text_vectors
from sie_mcp.tools.vectors import mean_vector

# Of 384 numbers each they take 77 MB; comparing all of them takes seconds.
MAX_TEXTS = 50_000
Unit = Literal["row", "file", "passage"]
SourcePath = Annotated[
    str,
    Field(
        max_length=4_096,
        description="Or a table (.csv, .jsonl …), a folder, or a pattern.",
    ),
]
UnitChoice = Annotated[
    Unit | None,
    Field(description="Default: row; of a folder: file."),
]


class Place(Result):
    """Where a text stands: its number in the caller's list or table, or its file."""

    index: int | None = None
    id: str | None = None
    source: str | None = None
    path: str | None = None
    lines: str | None = None
    pages: str | None = None
    paragraphs: str | None = None


class Gaps(Result):
    """What of a source did not take part."""

    blank_rows: int | None = None
    skipped: Skipped | None = None
    incomplete_files: int | None = None
    failed: Failures | None = None
    num_truncated: int | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """Texts and their vectors.

    Attributes:
        model: The model that made them; never "auto".
        unit: What each text is.
        texts: In the order of the source.
        vectors: float32 `(num_texts, dims)`, of length 1.
        place: Says where a text stands.
        gaps: What is not among them.
    """

    model: str
    unit: Unit
    texts: list[str]
    vectors: np.ndarray
    place: Callable[[int], Place]
    gaps: Gaps


@dataclass(frozen=True, slots=True)
class Source:
    """What a caller named: texts, or a path."""

    texts: Sequence[TextItem]
    path: str
    columns: Sequence[str]
    unit: Unit | None


async def read_collection(
    context: ToolContext, source: Source, model: str, progress: Progress
) -> Collection:
    """Read texts and their vectors; what was embedded before is not embedded again.

    Raises:
        InvalidInput: no such source, or too many texts.
        ModelLoading: it is not done before the call's deadline; the next call goes on.
        SettingError: the store cannot be used.
    """
    if _unit(context, source) == "row":
        inputs = await read_inputs(context, source.texts, source.path, source.columns)
        encoder = await find_encoder(context.client, model, progress)
        return await embed_rows(context, inputs, encoder, progress)
    if source.texts or source.columns:
        raise InvalidInput(
            f"unit {source.unit!r} goes with a folder or a pattern as `path`; leave texts and "
            "columns out"
        )
    found = await anyio.to_thread.run_sync(
        lambda: find_files(context.folders, [source.path or "."], argument="path"),
        abandon_on_cancel=True,
    )
    encoder = await find_encoder(context.client, model, progress)
    index = await open_index(context.client, context.config, encoder, found, progress)
    chunks, vectors = await _read(index, found)
    gaps = Gaps(
        skipped=skipped_files(index.known, found),
        incomplete_files=or_none(num_incomplete(index.known, found)),
    )
    if source.unit == "passage":
        return Collection(
            encoder.model,
            "passage",
            [chunk.text for chunk in chunks],
            vectors,
            lambda number: Place(**place_of(chunks[number], found)),
            gaps,
        )
    return await anyio.to_thread.run_sync(_files, encoder.model, chunks, vectors, found, gaps)


async def embed_rows(
    context: ToolContext, inputs: Inputs, encoder: Encoder, progress: Progress
) -> Collection:
    """Make a collection of rows; those that failed are left out."""
    vectors = await whole_text_vectors(context, encoder, inputs.texts, progress)

    def place(number: int) -> Place:
        row = vectors.kept[number]
        return Place(index=inputs.indices[row], id=inputs.items[row].id, source=inputs.source(row))

    texts = inputs.texts
    return Collection(
        vectors.model,
        "row",
        [texts[row] for row in vectors.kept],
        vectors.values,
        place,
        Gaps(
            blank_rows=or_none(inputs.num_blank),
            failed=failures(vectors.failed, inputs.indices),
            num_truncated=or_none(len(vectors.truncated)),
        ),
    )


def _unit(context: ToolContext, source: Source) -> Unit:
    if source.unit is not None or not source.path:
        return source.unit or "row"
    if is_pattern(source.path):
        return "row"
    inside = context.folders.to_search(source.path, argument="path")
    return "file" if inside.path.is_dir() else "row"


async def _read(index: FolderIndex, found: Found) -> tuple[list[StoredChunk], np.ndarray]:
    """Read the passages of files.

    Raises:
        InvalidInput: too many, or none.
    """
    num = sum(index.known[key].num_chunks for key in found.files if key in index.known)
    if num > MAX_TEXTS:
        raise InvalidInput(
            f"path: its files make {num:,} passages; the limit is {MAX_TEXTS:,}; name a folder "
            "below, or a pattern such as 'docs/**/*.md'"
        )
    chunks, vectors = await index.read(found)
    if not chunks:
        raise InvalidInput(f"path: none of the {len(found.files):,} files there holds a text")
    return chunks, vectors


def _files(
    model: str, chunks: Sequence[StoredChunk], vectors: np.ndarray, found: Found, gaps: Gaps
) -> Collection:
    """Join passages, which lie in the order of their files, to files."""
    paths: list[str] = []
    texts: list[str] = []
    values: list[np.ndarray] = []
    for path, numbers in itertools.groupby(range(len(chunks)), key=lambda n: chunks[n].path):
        places = list(numbers)
        paths.append(path)
        texts.append("\n".join(chunks[place].text for place in places))
        weights = [len(chunks[place].text) for place in places]
        values.append(mean_vector([vectors[place] for place in places], weights))
    return Collection(
        model,
        "file",
        texts,
        np.stack(values),
        lambda number: Place(path=found.files[paths[number]].path.name),
        gaps,
    )
