"""The tool `find_similar`: passages or rows most like a given one, by meaning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp.client import Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.collection import Gaps, Place, embed_rows
from sie_mcp.tools.context import ToolCall, ToolContext, tool_context
from sie_mcp.tools.given import Given, read_given
from sie_mcp.tools.index.encoder import find_encoder
from sie_mcp.tools.index.folder_index import open_index
from sie_mcp.tools.index.found import find_files
from sie_mcp.tools.inputs import Columns, Model, as_list, read_inputs
from sie_mcp.tools.long_work import in_thread
from sie_mcp.tools.passages import add_texts, num_incomplete, place_of, skipped_files
from sie_mcp.tools.result import (
    RoundedScore,
    compact,
    num_fitting,
    or_none,
    result_tokens,
)
from sie_mcp.tools.similarity import top_matches
from sie_mcp.tools.text_vectors import whole_text_vectors
from sie_mcp.tools.vectors import embed_texts

MAX_LIMIT = 100
MAX_PATHS = 100


@dataclass(frozen=True, slots=True)
class Hit:
    """A place, its cosine to what is given, and its text."""

    place: Place
    similarity: float
    text: str


@dataclass(frozen=True, slots=True)
class Similar:
    """The most similar first, among `count` files or rows."""

    model: str
    count: int
    hits: list[Hit]
    gaps: Gaps


class Near(Place):
    """One passage or row, and its text as far as it fits."""

    similarity: RoundedScore
    text: str | None = None
    cut: bool | None = None


class SimilarResult(Gaps):
    """The most similar first; `count`: how many rows or files were compared."""

    model: str
    count: int
    results: list[Near]
    omitted: int | None = None
    texts_omitted: int | None = None
    hint: str | None = None


async def similar_passages(
    context: ToolContext,
    given: Given,
    paths: Sequence[str],
    limit: int,
    model: str,
    progress: Progress,
) -> Similar:
    """Find passages of files, from the index that search_files keeps."""
    found = await in_thread(find_files, context.folders, paths)
    encoder = await find_encoder(context.client, model, progress)
    wanted = await embed_texts(context.client, encoder.model, given.passages, progress=progress)
    index = await open_index(context.client, context.config, encoder, found, progress)
    hits = await index.similar(wanted.values, found, limit, given.besides)
    return Similar(
        encoder.model,
        len(found.files),
        [Hit(Place(**place_of(chunk, found)), score, chunk.text) for chunk, score in hits],
        Gaps(
            skipped=skipped_files(index.known, found),
            incomplete_files=or_none(num_incomplete(index.known, found)),
        ),
    )


async def similar_rows(
    context: ToolContext,
    given: Given,
    table: str,
    columns: Sequence[str],
    limit: int,
    model: str,
    progress: Progress,
) -> Similar:
    """Find rows of a table, whose vectors are kept."""
    inputs = await read_inputs(context, [], table, columns, argument="table")
    encoder = await find_encoder(context.client, model, progress)
    rows = await embed_rows(context, inputs, encoder, progress)
    if given.row is None:
        text = "\n".join(given.passages)
        wanted = (await whole_text_vectors(context, encoder, [text], progress)).values
        own = None
    else:
        places = [rows.place(number).index for number in range(len(rows.texts))]
        if given.row not in places:
            raise InvalidInput(
                f"row: {table} has no text in row {given.row}; rows count from 0 to "
                f"{len(inputs.indices) + inputs.num_blank - 1:,}"
            )
        own = places.index(given.row)
        wanted = rows.vectors[[own]]
    num = min(limit + 1, len(rows.texts))
    numbers, scores = await in_thread(top_matches, wanted, rows.vectors, num)
    best = zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
    hits = [Hit(rows.place(one), score, rows.texts[one]) for one, score in best if one != own]
    return Similar(encoder.model, len(rows.texts), hits[:limit], rows.gaps)


def _answer(found: Similar, hits: Sequence[Hit], max_tokens: int) -> SimilarResult:
    entries = [Near(similarity=hit.similarity, **hit.place.model_dump()) for hit in hits]
    shown = entries[: num_fitting(entries, max_tokens)]
    left = max_tokens - sum(map(result_tokens, shown))
    num_bare = add_texts(shown, [hit.text for hit in hits], left)
    omitted = len(entries) - len(shown)
    return SimilarResult(
        model=found.model,
        count=found.count,
        results=shown,
        omitted=or_none(omitted),
        texts_omitted=or_none(num_bare),
        hint="use a larger max_tokens or a smaller limit" if omitted or num_bare else None,
        **found.gaps.model_dump(),
    )


async def find_similar(
    ctx: ToolCall,
    text: Annotated[str, Field(description="What others are to be like.")] = "",
    path: Annotated[str, Field(max_length=4_096, description="Or a file with it.")] = "",
    lines: Annotated[
        str,
        Field(max_length=40, description="Its lines or pages: 12-30."),
    ] = "",
    row: Annotated[int | None, Field(ge=0, description="Or a row of table, from 0.")] = None,
    paths: Annotated[
        list[str],
        BeforeValidator(as_list),
        Field(
            min_length=1,
            max_length=MAX_PATHS,
            description="Where to look: folders, files, patterns.",
        ),
    ] = ["."],  # noqa: B006
    table: Annotated[
        str, Field(max_length=4_096, description="Or look in rows: .csv, .jsonl …")
    ] = "",
    columns: Columns = [],  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="How many.")] = 10,
    min_similarity: Annotated[float, Field(ge=-1, le=1, description="Least cosine.")] = -1,
    max_tokens: Annotated[
        int, Field(ge=50, le=100_000, description="What the answer may cost.")
    ] = 1_500,
    model: Model = "auto",
) -> Annotated[CallToolResult, SimilarResult]:
    """Find the passages of a folder, or the rows of a table, most like a given one.

    Use it with a text, a passage that search_files named, or a row: what else says this, related
    tickets, code that does the same. Not for a question (search_files).

    Returns {path, lines | index, similarity, text?}, best first, without what is given itself, with
    as much text as fits max_tokens. Similarities are cosines.
    """
    context = tool_context(ctx)
    progress = context.progress
    if row is not None and not table:
        raise InvalidInput("row goes with table; name the file whose row it is")
    if table and paths != ["."]:
        raise InvalidInput("send paths or table, not both")
    if columns and not table:
        raise InvalidInput("columns goes with table; leave it out")
    await progress(0, 1, "reading what others are to be like")
    given = await in_thread(read_given, context, text, path, lines, row)
    found = (
        await similar_rows(context, given, table, columns, limit, model, progress)
        if table
        else await similar_passages(context, given, paths, limit, model, progress)
    )
    hits = [hit for hit in found.hits if hit.similarity >= min_similarity]
    return compact(_answer(found, hits, min(max_tokens, context.list_tokens)))
