"""The tool `search_files`: the passages of many files that answer a question, from a kept index."""

from collections.abc import Sequence
from typing import Annotated, Literal

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.index.encoder import ask
from sie_mcp.tools.index.folder_index import open_index
from sie_mcp.tools.index.found import Found, find_files
from sie_mcp.tools.index.rows import StoredChunk
from sie_mcp.tools.inputs import Model, Query, as_list, check_query
from sie_mcp.tools.passages import Skipped, add_texts, num_incomplete, place_of, skipped_files
from sie_mcp.tools.result import (
    LimitedResult,
    Result,
    ShortScore,
    compact,
    num_fitting,
    or_none,
    result_tokens,
)
from sie_mcp.tools.shortening import shorten_passages

MAX_TOP_K = 20
# What is retrieved by meaning and by words each.
CANDIDATES = 20
# What the reranker reads for each passage of the answer: reading is most of a search's time.
RERANKED_PER_PASSAGE = 2
MAX_PATHS = 100
Scored = tuple[StoredChunk, float]


class Passage(Result):
    """One passage: where it is, and its text as far as it fits.

    Attributes:
        lines: First and last line, such as "12-30".
        cut: Whether only the beginning of the text fitted.
    """

    path: str
    lines: str | None = None
    pages: str | None = None
    paragraphs: str | None = None
    score: ShortScore
    text: str | None = None
    cut: bool | None = None


class SearchResult(LimitedResult):
    """The best passages first. `texts_omitted`: how many have no text, as it did not fit.

    `score_model` is named where it is another than `model`.
    """

    model: str
    score_model: str | None = None
    score_type: wire.ScoreType | Literal["rank_fusion"]
    num_files: int
    results: list[Passage]
    texts_omitted: int | None = None
    skipped: Skipped | None = None
    incomplete_files: int | None = None
    limited_to: int | None = None
    hint: str | None = None


async def rerank_hits(
    client: EngineClient, model: str, query: str, hits: Sequence[Scored], progress: Progress
) -> tuple[wire.ScoreResponse, list[Scored]]:
    """Order hits by a score model; what it cannot read is left out."""
    items = [wire.Item(text=hit.text) for hit, _ in hits]
    answer = await client.score(model, wire.Item(text=query), items, progress=progress)
    failed = {score.index: score.error for score in answer.scores if score.error}
    raise_if_all_failed(failed, len(items))
    return answer, [
        (hits[score.index][0], score.score) for score in answer.scores if score.score is not None
    ]


def show(
    hits: Sequence[Scored], texts: Sequence[str], found: Found, max_tokens: int
) -> tuple[list[Passage], int]:
    """Describe hits with as much of their texts as fits, best first; count those without any."""
    passages = [Passage(score=score, **place_of(hit, found)) for hit, score in hits]
    shown = passages[: num_fitting(passages, max_tokens)]
    left = max_tokens - sum(map(result_tokens, shown))
    num_bare = add_texts(shown, texts, left)
    return shown, num_bare


async def search_files(
    ctx: ToolCall,
    query: Query,
    paths: Annotated[
        list[str],
        BeforeValidator(as_list),
        Field(
            min_length=1,
            max_length=MAX_PATHS,
            description="Folders, files or patterns (src/**/*.py) in an allowed folder; default: "
            "all of it.",
        ),
    ] = ["."],  # noqa: B006
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, description="How many passages.")] = 5,
    max_tokens: Annotated[
        int, Field(ge=50, le=100_000, description="What the answer may cost you to read.")
    ] = 800,
    rerank: Annotated[bool, Field(description="False: faster, less exact order.")] = True,
    model: Model = "auto",
    score_model: Model = "auto",
) -> Annotated[CallToolResult, SearchResult]:
    """Find the passages in many files that answer a question, by meaning and by words.

    Use it instead of grep and reading files when you do not know the words or the file: text, code,
    Markdown, PDF, Word, HTML. Not for all places of an exact name (grep), nor for one file that you
    know (filter_context).

    Returns {path, lines | pages | paragraphs, score, text?} for the best passages: of prose the
    sentences that matter, as far as max_tokens goes; read on in the file at those lines. The first
    search of a folder indexes it, which takes a while; later ones read only what changed. Passed
    over: hidden files, what .gitignore names, node_modules and the like; `skipped` says what else.
    Limit: 20,000 files.
    """
    context = tool_context(ctx)
    check_query(query)
    progress = context.progress
    await progress(0, 1, "looking for files")
    found = await anyio.to_thread.run_sync(
        find_files, context.folders, paths, abandon_on_cancel=True
    )
    question = await ask(context.client, model, query, progress)
    index = await open_index(context.client, context.config, question.encoder, found, progress)
    hits = await index.search(question, found, max(CANDIDATES, RERANKED_PER_PASSAGE * top_k))
    answer = None
    if rerank and hits:
        best = hits[: RERANKED_PER_PASSAGE * top_k]
        answer, hits = await rerank_hits(context.client, score_model, query, best, progress)
    hits = hits[:top_k]
    texts = [hit.text for hit, _ in hits]
    if answer:
        named = [(found.files[hit.path].path.name, hit.text) for hit, _ in hits]
        texts = await shorten_passages(context.client, answer.model, query, named, progress)
    limit = context.list_tokens
    shown, num_bare = show(hits, texts, found, min(max_tokens, limit))
    omitted = len(hits) - len(shown)
    return compact(
        SearchResult(
            model=question.encoder.model,
            score_model=answer.model if answer and answer.model != question.encoder.model else None,
            score_type=answer.score_type if answer else "rank_fusion",
            num_files=len(found.files),
            results=shown,
            omitted=or_none(omitted),
            texts_omitted=or_none(num_bare),
            skipped=skipped_files(index.known, found),
            incomplete_files=or_none(num_incomplete(index.known, found)),
            limited_to=limit if max_tokens > limit else None,
            hint="read those lines in the files, or use a larger max_tokens or a smaller top_k"
            if omitted or num_bare
            else None,
        ),
        context.config.max_result_tokens,
    )
