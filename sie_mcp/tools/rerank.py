"""The tool `rerank`: order passages by relevance to a query. One call of `score`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import anyio.to_thread
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.context import Keep, ToolCall, keep_nothing, tool_context
from sie_mcp.tools.failures import Failures, failures, raise_if_all_failed
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import (
    Columns,
    Inputs,
    Model,
    Path,
    Query,
    Texts,
    check_query,
    read_inputs,
)
from sie_mcp.tools.outputs import ColumnType, OutputPath, find_output, write_rows
from sie_mcp.tools.result import (
    LimitedResult,
    Result,
    RoundedScore,
    compact,
    estimate_tokens,
    num_fitting,
    or_none,
    result_tokens,
)
from sie_mcp.tools.shortening import shorten_prose

_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "score": "float",
    "truncated": "bool",
    "text": "text",
}
# Longer texts are sent back as the sentences that matter, those of the best so many.
LONG_TOKENS = 60
MAX_SHORTENED = 20
FRAME_TOKENS = 6  # the names around a text


@dataclass(frozen=True, slots=True)
class RerankOptions:
    """What to hand back: `max_tokens` bounds the list, texts included; `output` gets all."""

    top_k: int = 10
    min_score: float | None = None
    return_text: bool = False
    output: AllowedPath | None = None
    max_tokens: int = 4_000
    keep: Keep = keep_nothing


class Ranked(Result):
    """One document. `truncated`: the model read only its beginning; `cut`: `text` is a part."""

    index: int
    id: str | None = None
    source: str | None = None
    score: RoundedScore
    truncated: bool | None = None
    text: str | None = None
    cut: bool | None = None


class RerankResult(LimitedResult):
    """The best documents first. `omitted`: how many of the `top_k` did not fit the answer."""

    model: str
    score_type: wire.ScoreType
    count: int
    results: list[Ranked]
    output_path: str | None = None
    num_written: int | None = None
    below_min_score: int | None = None
    texts_omitted: int | None = None
    resource: str | None = None
    blank_rows: int | None = None
    failed: Failures | None = None
    hint: str | None = None


async def rerank_documents(
    client: EngineClient,
    model: str,
    query: str,
    documents: Inputs,
    options: RerankOptions,
    progress: Progress,
) -> RerankResult:
    """Score every document against the query and keep the best."""
    answer = await client.score(model, wire.Item(text=query), documents.items, progress=progress)
    failed = {score.index: score.error for score in answer.scores if score.error}
    raise_if_all_failed(failed, len(documents.items))
    scored = [(score, score.score) for score in answer.scores if score.score is not None]
    floor = float("-inf") if options.min_score is None else options.min_score
    above = [score for score, value in scored if value >= floor]
    if options.output is not None:
        await progress(0, 1, f"writing {options.output.name}")
        await anyio.to_thread.run_sync(
            _write, options.output, above, documents, options.return_text
        )
    best = [_ranked(score, documents) for score in above[: options.top_k]]
    shown = best[: num_fitting(best, options.max_tokens)]
    count = len(shown)
    if options.return_text:
        whole = [documents.texts[score.index] for score in above[: len(shown)]]
        texts = await _to_show(client, answer.model, query, whole, progress)
        count = _add_texts(shown, whole, texts, options.max_tokens)
    omitted, texts_omitted = len(best) - len(shown), len(shown) - count
    is_cut = bool(omitted or texts_omitted)
    return RerankResult(
        model=answer.model,
        score_type=answer.score_type,
        count=len(documents.items),
        results=shown,
        output_path=str(options.output.path) if options.output else None,
        num_written=len(above) if options.output else None,
        below_min_score=or_none(len(scored) - len(above)),
        omitted=or_none(omitted),
        texts_omitted=or_none(texts_omitted),
        resource=await options.keep(_all(above, documents, options))
        if is_cut and options.output is None
        else None,
        blank_rows=or_none(documents.num_blank),
        failed=failures(failed, documents.indices),
        hint="for what was left out use a smaller top_k, or filter_context on the documents"
        if is_cut
        else None,
    )


def _ranked(score: wire.Score, documents: Inputs) -> Ranked:
    return Ranked(
        index=documents.indices[score.index],
        id=documents.items[score.index].id,
        source=documents.source(score.index),
        score=score.score or 0.0,
        truncated=score.truncated or None,
    )


def _write(
    path: AllowedPath, scores: Sequence[wire.Score], documents: Inputs, with_texts: bool
) -> None:
    """Write every document's score, best first."""
    texts = documents.texts
    write_rows(
        path,
        _COLUMNS,
        (
            _ranked(score, documents).model_dump()
            | {
                "source": documents.sources[score.index] if documents.sources else None,
                "text": texts[score.index] if with_texts else None,
            }
            for score in scores
        ),
    )


def _all(scores: Sequence[wire.Score], documents: Inputs, options: RerankOptions) -> list[Ranked]:
    """Return every document's entry, beyond `top_k` too, with its text if wanted."""
    texts = documents.texts if options.return_text else None
    return [
        _ranked(score, documents).model_copy(update={"text": texts and texts[score.index]})
        for score in scores
    ]


async def _to_show(
    client: EngineClient, model: str, query: str, texts: Sequence[str], progress: Progress
) -> list[str]:
    """Return short texts as they are, and of long ones the sentences that matter."""
    places = [n for n, text in enumerate(texts) if estimate_tokens(text) > LONG_TOKENS]
    places = places[:MAX_SHORTENED]
    long = [texts[place] for place in places]
    shown = list(texts)
    for place, text in zip(
        places, await shorten_prose(client, model, query, long, progress), strict=True
    ):
        shown[place] = text
    return shown


def _add_texts(
    entries: Sequence[Ranked], whole: Sequence[str], texts: Sequence[str], max_tokens: int
) -> int:
    """Put texts into the entries, best first, while they fit; return how many have one."""
    left = max_tokens - sum(map(result_tokens, entries))
    added = 0
    for entry, text, full in zip(entries, texts, whole, strict=True):
        if (cost := estimate_tokens(text) + FRAME_TOKENS) <= left:
            entry.text = text
            entry.cut = len(text) < len(full) or None
            left -= cost
            added += 1
    return added


async def rerank(
    ctx: ToolCall,
    query: Query,
    documents: Annotated[Texts, Field(description="Passages: texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    top_k: Annotated[int, Field(ge=1, le=100, description="How many to return.")] = 10,
    min_score: Annotated[
        float | None, Field(description="Leave out what scores lower; mind score_type.")
    ] = None,
    return_text: Annotated[
        bool, Field(description="Send texts too, of long ones the parts that matter.")
    ] = False,
    output_path: OutputPath = "",
    model: Model = "auto",
) -> Annotated[CallToolResult, RerankResult]:
    """Order passages by how well they answer a query, best first.

    Use it before reading more than about ten passages, search hits, log lines or rows: then read
    only the best. Give the passages, or a file whose rows are the passages. Do not use it to pick
    a category (classify_taxonomy) or to shorten one long text (filter_context).

    Returns {index, id?, source?, score} for the top_k: index is the place in your list, or the row,
    from 0. Scores order passages within one call; their scale depends on score_type.
    truncated=true: longer than the model reads, so that only the beginning counted. Limit: 1,000
    passages, 10,000 rows in files.
    """
    context = tool_context(ctx)
    check_query(query)
    output = find_output(context, output_path)
    inputs = await read_inputs(context, documents, path, columns, argument="documents")
    options = RerankOptions(
        top_k, min_score, return_text, output, context.list_tokens, context.keep
    )
    return compact(
        await rerank_documents(context.client, model, query, inputs, options, context.progress),
        context.config.max_result_tokens,
    )
