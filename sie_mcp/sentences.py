"""A text as sentences: spans in order that hold everything but the space between them.

Sentence ends are found by sentencex (abbreviations, decimals, quotes, CJK full stops); lines,
lists, tables and over-long pieces are handled here. Offsets are code points of the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import sentencex  # type: ignore[import-untyped]  # it ships no types

# A piece longer than this is cut at a comma or a space: models read a few hundred tokens.
MAX_CHARS = 600
# Text wrapped by hand fills its lines; a line shorter than this ends because its author ended it.
WRAPPED_CHARS = 50
# Abbreviations of English; CJK and other full stops are found in any language.
_LANGUAGE = "en"

_MARKER = re.compile(r"[ \t]*(?:[-*+•‣–>|#]|\d{1,3}[.)]\s|\(?[a-z]\)\s|```)")
_HEADING = re.compile(r"[ \t]*(?:#|\|)")
_WORD = re.compile(r"[^\W\d_]|\d{2}")
_CUT = re.compile(r"[,;:，、；：]\s?|\s")


@dataclass(frozen=True, slots=True)
class Span:
    """Where a sentence lies: `text[start:end]`, without space around it."""

    start: int
    end: int


def split_sentences(text: str) -> list[Span]:
    """Split a text; a blank one has no sentences."""
    spans: list[Span] = []
    for block in _blocks(text):
        for sentence in _sentences(text, block):
            spans += _cut(text, sentence)
    return spans


def _blocks(text: str) -> Iterator[Span]:
    """Join lines that continue each other: wrapped prose, but not lists, tables or headings."""
    start = position = 0
    previous = ""
    for line in text.splitlines(keepends=True):
        if previous and not _continues(previous, line):
            yield Span(start, position)
            start = position
        position += len(line)
        previous = line
    yield Span(start, position)


def _continues(previous: str, line: str) -> bool:
    if not line.strip() or not previous.strip():
        return False
    if _MARKER.match(line) or _HEADING.match(previous):
        return False
    return len(previous) >= WRAPPED_CHARS or line[:1].islower()


def _sentences(text: str, block: Span) -> Iterator[Span]:
    """Cut a block at sentence ends; a number or bullet alone goes with what follows."""
    piece = text[block.start : block.end]
    waiting = block.start
    for boundary in sentencex.get_sentence_boundaries(_LANGUAGE, piece):
        end = block.start + boundary["end_index"]
        if _WORD.search(text, waiting, end):
            yield from _trimmed(text, waiting, end)
            waiting = end
    yield from _trimmed(text, waiting, block.end)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    piece = text[start:end]
    inner = piece.strip()
    if inner:
        start += len(piece) - len(piece.lstrip())
        yield Span(start, start + len(inner))


def _cut(text: str, span: Span) -> Iterator[Span]:
    """Cut a span that is too long, at the last comma or space that keeps a piece short enough."""
    start = span.start
    while span.end - start > MAX_CHARS:
        places = [m.end() for m in _CUT.finditer(text, start + MAX_CHARS // 2, start + MAX_CHARS)]
        end = places[-1] if places else start + MAX_CHARS
        yield from _trimmed(text, start, end)
        start = end
    yield from _trimmed(text, start, span.end)
