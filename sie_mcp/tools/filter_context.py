"""The tool `filter_context`: the sentences of texts that matter for a query, within a budget."""

from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.excerpts import Sentence, excerpts, sentences_of, shorten
from sie_mcp.tools.failures import failures, raise_if_all_failed
from sie_mcp.tools.filter_result import FilterResult, Kept, as_prose
from sie_mcp.tools.inputs import (
    Columns,
    Inputs,
    Model,
    Path,
    Query,
    TextItem,
    Texts,
    check_query,
    read_inputs,
)
from sie_mcp.tools.lexical import word_scores
from sie_mcp.tools.progress import CallProgress
from sie_mcp.tools.result import compact, estimate_tokens, or_none, plain
from sie_mcp.tools.selection import fuse, select, smooth, worth_keeping

MAX_SENTENCES = 10_000
TEXT_SHARE = 0.75  # of a result's limit; spans and escapes take the rest


async def filter_texts(
    client: EngineClient,
    model: str,
    query: str,
    inputs: Inputs,
    *,
    max_tokens: int,
    progress: Progress,
) -> FilterResult:
    """Score every sentence against the query and keep the best that fit, in their order.

    Raises:
        InvalidInput: more than `MAX_SENTENCES` sentences.
    """
    sentences = [shorten(sentence, max_tokens) for sentence in sentences_of(inputs.texts)]
    if len(sentences) > MAX_SENTENCES:
        raise InvalidInput(
            f"the texts hold {len(sentences):,} sentences; the limit is {MAX_SENTENCES:,}; "
            "filter them in parts, or rerank whole passages first"
        )
    answer = None
    failed: dict[int, wire.ItemError] = {}
    kept = sentences
    if sum(sentence.tokens for sentence in sentences) > max_tokens:
        items = [wire.Item(text=sentence.text) for sentence in sentences]
        answer = await client.score(model, wire.Item(text=query), items, progress=progress)
        failed = {score.index: score.error for score in answer.scores if score.error}
        raise_if_all_failed(failed, len(items))
        kept = _best(query, sentences, answer, max_tokens)
    found = excerpts(kept, inputs.texts)
    return FilterResult(
        model=answer and answer.model,
        kept_tokens=sum(estimate_tokens(excerpt.text) for excerpt in found),
        total_tokens=sum(map(estimate_tokens, inputs.texts)),
        kept_sentences=len(kept),
        total_sentences=len(sentences),
        results=[
            Kept(
                index=inputs.indices[excerpt.source],
                id=inputs.items[excerpt.source].id,
                source=inputs.source(excerpt.source),
                text=excerpt.text,
                spans=excerpt.spans,
                pieces=excerpt.pieces,
            )
            for excerpt in found
        ],
        blank_rows=or_none(inputs.num_blank),
        failed=failures(failed, [inputs.indices[sentence.source] for sentence in sentences]),
    )


def _best(
    query: str, sentences: list[Sentence], answer: wire.ScoreResponse, max_tokens: int
) -> list[Sentence]:
    """Choose by meaning and by words; a sentence that has no score counts as the worst."""
    known = {score.index: score.score for score in answer.scores if score.score is not None}
    worst = min(known.values())
    meaning = [known.get(place, worst) for place in range(len(sentences))]
    words = word_scores(query, [sentence.text for sentence in sentences])
    groups = [sentence.source for sentence in sentences]
    scores = smooth(fuse(meaning, words), groups)
    costs = [sentence.tokens for sentence in sentences]
    places = select(costs, scores, groups, max_tokens, worth_keeping(scores, groups))
    return [sentences[place] for place in places]


async def filter_context(
    ctx: ToolCall,
    query: Query,
    text: Annotated[str, Field(description="One long text.")] = "",
    texts: Annotated[Texts, Field(description="Or several: texts, or {id, text}.")] = [],  # noqa: B006
    path: Path = "",
    columns: Columns = [],  # noqa: B006
    max_tokens: Annotated[int, Field(ge=50, le=100_000, description="How much to keep.")] = 500,
    prose: Annotated[bool, Field(description="Plain text with citations.")] = False,
    model: Model = "auto",
) -> CallToolResult:
    """Keep only the sentences of long texts that matter for a question, within a token budget.

    Use it instead of reading a long document, page or many search results when you
    need what they say about one thing: give the text, or a file so that you never read it. Not for
    ordering whole passages (rerank), and not for questions about all of a text, such as a summary
    or a count.

    Returns for each text {index, id?, text, spans}: the kept sentences in their order, with " […] "
    where something is left out; spans are [sentence number, start, end) of each piece, in
    characters. prose=true cites pieces by lines or characters. Limit: 10,000 sentences.
    """
    context = tool_context(ctx)
    check_query(query)
    if text and texts:
        raise InvalidInput("send text or texts, not both")
    given = [TextItem(text=text)] if text else texts
    limit = int(context.config.max_result_tokens * TEXT_SHARE)
    inputs = await read_inputs(context, given, path, columns, argument="text", whole=True)
    result = await filter_texts(
        context.client,
        model,
        query,
        inputs,
        max_tokens=min(max_tokens, limit),
        progress=CallProgress(ctx),
    )
    result.limited_to = limit if max_tokens > limit else None
    return plain(as_prose(result, inputs)) if prose else compact(result)
