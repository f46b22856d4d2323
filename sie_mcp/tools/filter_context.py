"""The tool `filter_context`: the sentences of texts that matter for a query, within a budget."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from mcp.types import CallToolResult, TextContent
from pydantic import Field

from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.excerpts import Sentence, excerpts, sentences_of, shorten
from sie_mcp.tools.failures import failures
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
from sie_mcp.tools.result import compact, estimate_tokens, or_none, plain
from sie_mcp.tools.sentence_scores import ScoredSentences, score_sentences

MAX_SENTENCES = 10_000
SHRINK = 0.95  # of what should fit, as it is an estimate
TEXT_SHARE = 0.75  # of a result's limit; spans and escapes take the rest


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be kept, and how long the answer may be, in tokens.

    Attributes:
        text: Of kept text.
        answer: Of the whole answer.
        limited_to: The text's budget, where it is lower than what was asked for.
        shown: How an answer is written.
    """

    text: int
    answer: int
    limited_to: int | None = None
    shown: Callable[[FilterResult], CallToolResult] = compact

    def excess(self, result: FilterResult) -> float:
        """Return how many times the limit an answer is."""
        (block,) = self.shown(result).content
        assert isinstance(block, TextContent)
        return estimate_tokens(block.text) / self.answer


async def filter_texts(
    client: EngineClient,
    model: str,
    query: str,
    inputs: Inputs,
    budget: Budget,
    progress: Progress,
) -> FilterResult:
    """Score every sentence against the query and keep the best that fit, in their order.

    Raises:
        InvalidInput: more than `MAX_SENTENCES` sentences.
    """
    sentences = [shorten(sentence, budget.text) for sentence in sentences_of(inputs.texts)]
    if len(sentences) > MAX_SENTENCES:
        raise InvalidInput(
            f"the texts hold {len(sentences):,} sentences; the limit is {MAX_SENTENCES:,}; "
            "filter them in parts, or rerank whole passages first"
        )
    if sum(sentence.tokens for sentence in sentences) <= budget.text:
        result = _result(inputs, sentences, sentences, budget, None)
        if budget.excess(result) <= 1:
            return result
    scored = await score_sentences(client, model, query, inputs, sentences, progress)
    left = budget.text
    while True:
        kept = scored.best(sentences, left)
        result = _result(inputs, sentences, kept, budget, scored)
        # Ids, spans and escapes cost more than was set aside for them: so much less text.
        if (excess := budget.excess(result)) <= 1 or not kept:
            return result
        left = int(left / excess * SHRINK)


def _result(
    inputs: Inputs,
    sentences: list[Sentence],
    kept: list[Sentence],
    budget: Budget,
    scored: ScoredSentences | None,
) -> FilterResult:
    found = excerpts(kept, inputs.texts)
    indices = [inputs.indices[sentence.source] for sentence in sentences]
    return FilterResult(
        model=scored and scored.model,
        limited_to=budget.limited_to,
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
        failed=failures(scored.failed, indices) if scored else None,
    )


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
    budget = Budget(
        text=min(max_tokens, limit),
        answer=context.config.max_result_tokens,
        limited_to=limit if max_tokens > limit else None,
        shown=(lambda result: plain(as_prose(result, inputs))) if prose else compact,
    )
    result = await filter_texts(context.client, model, query, inputs, budget, context.progress)
    return budget.shown(result)
