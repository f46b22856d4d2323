"""How a text is read: its words and windows, the caller's spans among them, and a prompt before.

Source: base.py and model.py of the glirel package. Knows no weights.
"""

from dataclasses import dataclass

import numpy as np

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.glirel.head import Layout
from sie_mcp.adapters.glirel.rule import FIRST, LAST, GlirelRule
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.words import WordSpan
from sie_mcp.errors import InvalidInput

OUTPUT = "links"
_OUTPUTS = frozenset({OUTPUT})

# A span of characters, or of words with the last one inclusive.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Some of a request's relations as they are read: the pieces of each word of the prompt."""

    places: range
    pieces: list[list[int]]


@dataclass(frozen=True, slots=True)
class Part:
    """A window of a text, and those of its entities that it holds whole.

    Attributes:
        spans: The entities' characters.
        pairs: int64 `(num_pairs, 2)`, head and tail among `spans`.
    """

    window: Window
    spans: list[Place]
    pairs: np.ndarray


def words_of(spans: list[Place], words: list[WordSpan], where: str) -> dict[Place, Place]:
    """Return each span's first and last word, spans in order; words are those the model reads.

    Raises:
        InvalidInput: a span without a word.
    """
    starts = np.array([start for start, _ in words])
    ends = np.array([end for _, end in words])
    found: dict[Place, Place] = {}
    for start, end in sorted(spans):
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(starts, end, side="left")) - 1
        if last < first:
            raise InvalidInput(f"{where} has a span [{start}, {end}) without a word to read")
        found[start, end] = (first, last)
    return found


def pair_up(starts: np.ndarray, max_distance: int | None) -> np.ndarray:
    """Return which entities are asked about as head and tail, int64 `(num_pairs, 2)`.

    Those that are far apart are asked about in the order of the text alone.
    """
    heads, tails = np.indices((len(starts), len(starts)))
    wanted = heads != tails
    if max_distance is not None:
        near = np.abs(starts[:, None] - starts[None]) <= max_distance
        wanted &= near | (heads < tails)
    return np.argwhere(wanted).astype(np.int64)


def marked(
    pieces: list[list[int]], spans: list[Place], marks: tuple[list[int], list[int]]
) -> tuple[list[list[int]], list[Place]]:
    """Put marks around spans, which are in order and apart; they become part of their spans."""
    found: list[list[int]] = []
    places: list[Place] = []
    done = 0
    for first, last in spans:
        found += pieces[done:first]
        places.append((len(found), len(found) + last - first + 2))
        found += [marks[0], *pieces[first : last + 1], marks[1]]
        done = last + 1
    return found + pieces[done:], places


class Joiner:
    """Joins prompts and windows to sequences."""

    def __init__(self, rule: GlirelRule, tokenizer: TextTokenizer) -> None:
        self._rule, self._tokenizer = rule, tokenizer
        first, last = tokenizer.pieces([FIRST, LAST])
        self._marks = (first, last)

    def join(
        self, prompt: Prompt, pieces: list[list[int]], spans: list[Place]
    ) -> tuple[Sequence, np.ndarray]:
        """Return a prompt and a window's words as a sequence, and the pairs it asks about.

        Args:
            prompt: The relations.
            pieces: Of each word of the window.
            spans: First and last word of each entity, counted in the window, in order.
        """
        if self._rule.marks_entities:
            pieces, spans = marked(pieces, spans, self._marks)
        places = np.array(spans, dtype=np.int64).reshape(-1, 2)
        pairs = pair_up(places[:, 0], self._rule.max_distance)
        every = prompt.pieces + pieces
        tokens = self._represent(np.array([len(one) for one in every], dtype=np.int64))
        layout = Layout(tokens, len(prompt.places), places, pairs)
        ids = np.array([one for word in every for one in word], dtype=np.int64)
        whole = self._tokenizer.with_special_tokens(ids)
        return Sequence(whole, outputs=_OUTPUTS, extra=layout), pairs

    def _represent(self, sizes: np.ndarray) -> np.ndarray:
        """Return the token that represents each word."""
        ends: np.ndarray = self._tokenizer.num_before + np.cumsum(sizes)
        return ends - sizes if self._rule.pooling == "first" else ends - 1
