"""What `filter_context` hands back: a structure, or plain text with citations."""

import json

from pydantic import Field

from sie_mcp.tools.failures import Failures
from sie_mcp.tools.folders import ending_of
from sie_mcp.tools.inputs import Inputs
from sie_mcp.tools.result import Result

# Of these files a text is all of the file, so that no place in it need be named.
_BY_LINE = (".txt", ".md", ".txt.gz", ".md.gz")
_WHOLE = (*_BY_LINE, ".html", ".htm", ".docx")


class Kept(Result):
    """What is kept of one text; `spans` are [first sentence, start, end] of each piece."""

    index: int
    id: str | None = None
    source: str | None = None
    text: str
    spans: list[list[int]]
    # For prose; not sent.
    pieces: list[str] = Field(exclude=True)


class FilterResult(Result):
    """The kept text, by source. Token counts are estimates; `model` is None if all of it fits.

    `limited_to`: the budget that was used, where the server's limit is lower than what was asked.
    """

    model: str | None = None
    limited_to: int | None = None
    kept_tokens: int
    total_tokens: int
    kept_sentences: int
    total_sentences: int
    results: list[Kept]
    blank_rows: int | None = None
    failed: Failures | None = None


def as_prose(result: FilterResult, inputs: Inputs) -> str:
    """Write the kept pieces under their sources, each behind its lines, or characters."""
    places = {index: place for place, index in enumerate(inputs.indices)}
    parts = [_summary(result)]
    for kept in result.results:
        place = places[kept.index]
        name, has_lines = _source(kept, inputs, place)
        text = inputs.items[place].text or ""
        unit = "lines" if has_lines and "\n" in text else "characters"
        pieces = [
            f"[{_lines(text, start, end) if unit == 'lines' else f'{start}-{end}'}] {piece}"
            for piece, (_, start, end) in zip(kept.pieces, kept.spans, strict=True)
        ]
        parts.append("\n".join([f"{name}, {unit}:", *pieces]))
    return "\n\n".join(parts)


def _summary(result: FilterResult) -> str:
    """Say how much is kept, and what was not read."""
    notes = [
        f"Kept {result.kept_sentences:,} of {result.total_sentences:,} sentences, about "
        f"{result.kept_tokens:,} of {result.total_tokens:,} tokens."
    ]
    if result.limited_to is not None:
        notes.append(f"The server's limit is {result.limited_to:,} tokens.")
    if result.blank_rows is not None:
        notes.append(f"{result.blank_rows:,} rows were blank.")
    if result.failed is not None:
        notes.append(f"Not judged: {json.dumps(result.failed.model_dump(exclude_none=True))}")
    return " ".join(notes)


def _source(kept: Kept, inputs: Inputs, place: int) -> tuple[str, bool]:
    """Return what to call a text, and whether its lines are those of what the caller knows."""
    source = inputs.sources[place] if inputs.sources else None
    name = (source or "").removesuffix(" line 1").removesuffix(" paragraph 1")
    if ending_of(name) in _WHOLE:
        return name, ending_of(name) in _BY_LINE
    return kept.source or kept.id or f"text {kept.index}", source is None


def _lines(text: str, start: int, end: int) -> str:
    first = text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, end)
    return str(first) if first == last else f"{first}-{last}"
