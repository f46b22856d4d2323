"""Kept sentences put together again: text with gaps, and where each piece lies."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sie_mcp.sentences import Span, split_sentences
from sie_mcp.tools.result import BYTES_PER_TOKEN, estimate_tokens

GAP = " […] "
GAP_TOKENS = estimate_tokens(GAP)
# More space than this between two kept sentences is shortened.
_MAX_SPACE = 2


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: which text it is of, its number there, and where it lies."""

    source: int
    number: int
    span: Span
    text: str

    @property
    def tokens(self) -> int:
        """What it costs in an excerpt, the gap after it included."""
        return estimate_tokens(self.text) + GAP_TOKENS


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is kept of one text; `spans` are [first sentence, start, end] of each piece."""

    source: int
    pieces: list[str]
    spans: list[list[int]]

    @property
    def text(self) -> str:
        """The pieces with a mark where something is left out."""
        return GAP.join(self.pieces)


def sentences_of(texts: Sequence[str]) -> list[Sentence]:
    """Split texts into sentences, in order."""
    return [
        Sentence(source, number, span, text[span.start : span.end])
        for source, text in enumerate(texts)
        for number, span in enumerate(split_sentences(text))
    ]


def shorten(sentence: Sentence, max_tokens: int) -> Sentence:
    """Cut a sentence's end off until it costs at most `max_tokens`, gap included."""
    if sentence.tokens <= max_tokens:
        return sentence
    room = (max_tokens - GAP_TOKENS) * BYTES_PER_TOKEN
    text = sentence.text.encode()[:room].decode(errors="ignore")
    span = Span(sentence.span.start, sentence.span.start + len(text))
    return Sentence(sentence.source, sentence.number, span, text)


def excerpts(kept: Sequence[Sentence], texts: Sequence[str]) -> list[Excerpt]:
    """Join kept sentences, given in order, into one excerpt for each text that has any."""
    by_source: dict[int, list[Sentence]] = {}
    for sentence in kept:
        by_source.setdefault(sentence.source, []).append(sentence)
    return [
        Excerpt(
            source=source,
            pieces=[_joined(piece, texts[source]) for piece in _pieces(sentences)],
            spans=[
                [piece[0].number, piece[0].span.start, piece[-1].span.end]
                for piece in _pieces(sentences)
            ],
        )
        for source, sentences in by_source.items()
    ]


def _pieces(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Group sentences that follow each other."""
    piece: list[Sentence] = []
    for sentence in sentences:
        if piece and sentence.number != piece[-1].number + 1:
            yield piece
            piece = []
        piece.append(sentence)
    yield piece


def _joined(piece: Sequence[Sentence], text: str) -> str:
    """Join with the space that stood between, shortened where there was much."""
    joined = piece[0].text
    for before, sentence in itertools.pairwise(piece):
        space = text[before.span.end : sentence.span.start]
        if len(space) > _MAX_SPACE:
            space = "\n\n" if "\n" in space else " "
        joined += space + sentence.text
    return joined
