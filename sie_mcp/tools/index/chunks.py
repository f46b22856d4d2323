"""Texts cut into chunks that a small encoder reads whole, at seams where there are any.

A chunk keeps the lines (or pages, or paragraphs) it came from. Knows no file format.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# About 250 tokens of English, of which the default encoder reads 256.
MAX_CHARS = 1_000
# A heading begins a new chunk once the one before has so much.
MIN_CHARS = 300
MAX_HEADING_CHARS = 200
# Chunks made with other rules must not be met in an index.
RULES = "lines.1"
_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Part:
    """A line, page or paragraph, or a piece of one: its number, from 1, and its text.

    Attributes:
        heading: The headings above it, outermost first.
        is_heading: Whether it is one.
    """

    number: int
    text: str
    heading: str = ""
    is_heading: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether nothing is lost by cutting here."""
        return not self.text or self.text.isspace()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file: its text, and the first and last line, page or paragraph it is of."""

    text: str
    start: int
    end: int
    heading: str = ""

    @property
    def embedded(self) -> str:
        """What the encoder reads: the text under its headings."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


def cut(parts: Iterable[Part]) -> Iterator[Chunk]:
    """Join parts into chunks of at most `MAX_CHARS`; blank ones vanish at the ends."""
    waiting: list[Part] = []
    size = 0
    for part in _pieces(parts):
        if part.is_heading and size >= MIN_CHARS:
            yield from _chunk(waiting)
            waiting, size = [], 0
        while waiting and size + len(part.text) > MAX_CHARS:
            seam = _seam(waiting)
            yield from _chunk(waiting[:seam])
            waiting = waiting[seam:]
            size = sum(len(one.text) + 1 for one in waiting)
        waiting.append(part)
        size += len(part.text) + 1
    yield from _chunk(waiting)


def with_headings(lines: Iterable[str]) -> Iterator[Part]:
    """Make parts of the lines of a Markdown text; what is in a code block is no heading."""
    above: list[tuple[int, str]] = []
    is_code = False
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            is_code = not is_code
        found = None if is_code else _HEADING.match(line)
        heading = " > ".join(name for _, name in above)[:MAX_HEADING_CHARS]
        if found:
            level = len(found[1])
            above = [*(one for one in above if one[0] < level), (level, found[2].strip("# "))]
            heading = " > ".join(name for _, name in above[:-1])[:MAX_HEADING_CHARS]
        yield Part(number, line, heading, found is not None)


def _pieces(parts: Iterable[Part]) -> Iterator[Part]:
    """Cut what is longer than a chunk, at a space where one is near."""
    for part in parts:
        text = part.text
        while len(text) > MAX_CHARS:
            space = text.rfind(" ", MAX_CHARS // 2, MAX_CHARS)
            end = space + 1 if space >= 0 else MAX_CHARS
            yield Part(part.number, text[:end], part.heading)
            text = text[end:]
        yield Part(part.number, text, part.heading, part.is_heading)


def _seam(parts: list[Part]) -> int:
    """Return where to cut: behind the last blank part or before a heading, else at the end."""
    for place in range(len(parts) - 1, len(parts) // 2, -1):
        if parts[place].is_blank or parts[place].is_heading:
            return place
    return len(parts)


def _chunk(parts: list[Part]) -> Iterator[Chunk]:
    filled = [place for place, part in enumerate(parts) if not part.is_blank]
    if filled:
        kept = parts[filled[0] : filled[-1] + 1]
        text = "\n".join(part.text for part in kept)
        yield Chunk(text, kept[0].number, kept[-1].number, kept[0].heading)
