"""From one tag a word to entities: BIO, BILOU, BIOES or plain tags.

Offsets are code points of the caller's own string. Knows tokens and tags; knows no model.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sie_mcp import wire
from sie_mcp.adapters.runs import Run, to_entity
from sie_mcp.adapters.tokenizer import Tokens

OUTSIDE = "O"
_POSITIONS = frozenset("BILOUES")


@dataclass(frozen=True, slots=True, order=True)
class Word:
    """A word as the tokenizer splits them: its first token, and its place in the text."""

    first: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tag:
    """What a word is: position "B" and label "PERSON" for "B-PERSON"; a plain tag has none."""

    position: str
    label: str

    @classmethod
    def parse(cls, tag: str) -> "Tag":
        """Split a checkpoint's label."""
        position, dash, label = tag.partition("-")
        return cls(position, label) if dash and position in _POSITIONS else cls("", tag)


def words_of(tokens: Tokens) -> list[Word]:
    """Return the words of a text that was tokenised without special tokens."""
    found: list[Word] = []
    before: int | None = None
    for index, (word, (start, end)) in enumerate(zip(tokens.words, tokens.offsets, strict=True)):
        if found and word is not None and word == before:
            found[-1] = Word(found[-1].first, found[-1].start, end)
        else:
            found.append(Word(index, start, end))
        before = word
    return found


def join_words(text: str, tagged: Iterable[tuple[Word, Tag, float]]) -> list[wire.Entity]:
    """Join neighbouring words of one label where the scheme says so.

    An entity's score is the mean over its words.
    """
    runs: list[Run] = []
    is_open = False
    for word, tag, score in tagged:
        if tag.label == OUTSIDE:
            is_open = False
            continue
        is_same = bool(runs) and runs[-1].label == tag.label
        begins = tag.position in ("B", "S", "U") or not is_open
        if not is_same or (begins and not _is_glued(text, runs[-1].end, word.start)):
            runs.append(Run(tag.label, word.start, word.end, []))
        runs[-1].end = word.end
        runs[-1].scores.append(score)
        is_open = tag.position not in ("E", "L", "S", "U")
    return [to_entity(text, run) for run in runs]


def _is_glued(text: str, end: int, start: int) -> bool:
    """Whether two words are written as one with punctuation ("a@b"): one entity, whatever the tags.

    Letters side by side are not: Chinese has a word a letter, and its tags are to be believed.
    """
    return end == start and not (text[end - 1].isalnum() and text[start].isalnum())
