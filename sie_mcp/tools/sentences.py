"""Cutting text into sentences without losing a character: every piece has its offsets.

Rules, not a model: a sentence ends at . ! ? … or their East Asian forms, at a blank line, and at a
line break before a list item; not after an abbreviation, an initial or inside a number.
"""

import re
from dataclasses import dataclass

# A sentence longer than this is cut at the last space before it: a table row, minified text.
MAX_SENTENCE_CHARS = 1_200

_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof rev gen sen rep gov sgt capt col lt st jr sr vs etc inc ltd co corp dept univ "
    "fig figs eq eqs sec no nos vol pp p ed eds al approx est ca cf e.g i.e viz a.m p.m u.s u.k u.n "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun".split()
)
_END = re.compile(
    r"""
    (?P<wide>[。！？｡]+[」』”’）)\]]*\s*)            # East Asian ends need no space after them
  | (?P<mark>[.!?…]+[\"'”’)\]]*)(?P<space>\s+|$)   # others do
  | (?P<blank>\n[ \t]*\n\s*)                        # a blank line
  | (?P<item>\n(?=[ \t]*(?:[-*•–]|\d{1,3}[.)])\s))  # the next line is a list item
    """,
    re.VERBOSE,
)
_LAST_WORD = re.compile(r"([\w.]+)$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A piece of the text: `text[start:end]`, surrounding white space not included."""

    start: int
    end: int


def split_sentences(text: str) -> list[Sentence]:
    """Cut a text; the pieces are in order and cover every character that is not a space."""
    pieces: list[Sentence] = []
    start = 0
    for match in _END.finditer(text):
        if match["mark"] and not _ends_sentence(text, match):
            continue
        end = match.end("mark") if match["mark"] else match.end()
        pieces += _trimmed(text, start, end)
        start = end
    return pieces + _trimmed(text, start, len(text))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Whether a full stop ends a sentence: not after an abbreviation or before a small letter."""
    if match["mark"][0] != ".":
        return True
    after = text[match.end() : match.end() + 1]
    if after.islower():
        return False
    found = _LAST_WORD.search(text, max(match.start() - 20, 0), match.start())
    word = found[1].lower() if found else ""
    if not after:
        return True
    is_initial = len(word) == 1 and word.isalpha() and word != "i"
    return not (word in _ABBREVIATIONS or is_initial)


def _trimmed(text: str, start: int, end: int) -> list[Sentence]:
    """Return the piece without white space around it, cut where it is too long."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    pieces: list[Sentence] = []
    while end - start > MAX_SENTENCE_CHARS:
        space = text.rfind(" ", start + 1, start + MAX_SENTENCE_CHARS)
        cut = space if space > start else start + MAX_SENTENCE_CHARS
        pieces.append(Sentence(start, cut))
        start = cut
        while start < end and text[start].isspace():
            start += 1
    return [*pieces, Sentence(start, end)] if end > start else pieces
