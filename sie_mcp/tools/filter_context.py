"""filter_context: the sentences of a long text that matter for a question, within a budget."""

from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext, reporter, tool_context
from sie_mcp.tools.files import read_text
from sie_mcp.tools.reply import count_tokens, reply, short
from sie_mcp.tools.sentences import Sentence, split_sentences
from sie_mcp.tools.texts import ModelName, Texts, check_text, to_items

MAX_SENTENCES = 10_000
GAP = " […] "


class Span(pydantic.BaseModel):
    """Sentences that stood together; text of the source from start to end, in characters."""

    source: str | None = Field(default=None, description="Which text; left out for a single one")
    start: int
    end: int
    score: float = Field(description="Of its best sentence; compares within this answer only")
    text: str


class FilterResult(pydantic.BaseModel):
    """What was kept, in the order of the source."""

    model: str
    spans: list[Span]
    kept_tokens: int
    total_tokens: int
    kept_sentences: int
    total_sentences: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One sentence of one source."""

    source: int
    sentence: Sentence
    text: str
    tokens: int


async def filter_context(
    query: Annotated[str, Field(description="The question the text should answer")],
    ctx: Context[Any, Any],
    text: Annotated[str | None, Field(description="One long text")] = None,
    texts: Texts | None = None,
    path: Annotated[
        str | None, Field(description="A UTF-8 text file in an allowed folder, instead of text")
    ] = None,
    max_tokens: Annotated[
        int, Field(ge=20, le=20_000, description="Budget for what is kept (4 characters a token)")
    ] = 500,
    model: ModelName = "auto",
) -> Annotated[CallToolResult, FilterResult]:
    """Keep only the sentences of a long text that matter for a question, in their order.

    Use it before reading a document, a transcript or several pages for one question: give `text`,
    `texts` or a `path`, and read the few spans that come back, with their character offsets. With a
    path you never read the document at all. Not for ordering separate passages (rerank does that),
    and not for summaries: what is kept is verbatim. A budget of 300 to 800 tokens suits one
    question. Up to 10,000 sentences a call.
    """
    context = tool_context(ctx)
    check_text(query, "query", context)
    names, sources = read_sources(text, texts, path, context)
    units = to_units(sources)
    response = await context.client.score(
        model,
        wire.Item(text=query),
        [wire.Item(text=unit.text) for unit in units],
        progress=reporter(ctx),
    )
    scores = [0.0] * len(units)
    for one in response.scores:
        scores[one.index] = one.score if one.score is not None else float("-inf")
    kept = choose(units, scores, max_tokens)
    spans = to_spans(units, kept, scores, sources, names)
    return reply(
        FilterResult(
            model=response.model,
            spans=spans,
            kept_tokens=sum(count_tokens(span.text) for span in spans),
            total_tokens=sum(count_tokens(source) for source in sources),
            kept_sentences=len(kept),
            total_sentences=len(units),
        )
    )


def read_sources(
    text: str | None, texts: Texts | None, path: str | None, context: ToolContext
) -> tuple[list[str | None], list[str]]:
    """Return the sources' names and their texts; exactly one argument may be given.

    Raises:
        InvalidInput: none or several were given, or a text is empty or too long.
    """
    given = [name for name, value in (("text", text), ("texts", texts), ("path", path)) if value]
    if len(given) != 1:
        raise InvalidInput(
            f"give exactly one of text, texts or path, and not an empty one; given: "
            f"{', '.join(given) or 'none'}"
        )
    if texts:
        items = to_items(texts, "texts", context)
        names: list[str | None] = [item.id or str(place) for place, item in enumerate(items)]
        return names, [item.text or "" for item in items]
    whole = read_text(path, context) if path else text or ""
    check_text(whole, path or "text", context)
    return [None], [whole]


def to_units(sources: list[str]) -> list[Unit]:
    """Cut the sources into sentences.

    Raises:
        InvalidInput: more sentences than one call scores.
    """
    units = [
        Unit(number, one, source[one.start : one.end], count_tokens(source[one.start : one.end]))
        for number, source in enumerate(sources)
        for one in split_sentences(source)
    ]
    if len(units) > MAX_SENTENCES:
        raise InvalidInput(
            f"{len(units):,} sentences are over the limit of {MAX_SENTENCES:,}; send a part of it"
        )
    return units


def choose(units: list[Unit], scores: list[float], max_tokens: int) -> set[int]:
    """Take the best sentences that fit, then single ones between two kept: they give coherence."""
    kept: set[int] = set()
    left = max_tokens
    for place in sorted(range(len(units)), key=lambda one: (-scores[one], one)):
        cost = units[place].tokens + count_tokens(GAP)
        if cost <= left:
            kept.add(place)
            left -= cost
    if not kept:
        # The best one alone is over the budget: its beginning is better than nothing.
        return {max(range(len(units)), key=lambda one: scores[one])}
    return kept


def to_spans(
    units: list[Unit],
    kept: set[int],
    scores: list[float],
    sources: list[str],
    names: list[str | None],
) -> list[Span]:
    """Join neighbours of one source into spans."""
    spans: list[Span] = []
    previous = -2
    for place in sorted(kept):
        unit = units[place]
        joins = place == previous + 1 and units[previous].source == unit.source
        start = spans[-1].start if joins else unit.sentence.start
        best = max(spans[-1].score, scores[place]) if joins else scores[place]
        span = Span(
            source=names[unit.source],
            start=start,
            end=unit.sentence.end,
            score=short(best),
            text=sources[unit.source][start : unit.sentence.end],
        )
        if joins:
            spans[-1] = span
        else:
            spans.append(span)
        previous = place
    return spans
