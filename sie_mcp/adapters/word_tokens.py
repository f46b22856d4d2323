"""The tokens of a text that was cut into words. Knows no model and no text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from tokenizers import Encoding


@dataclass(frozen=True, slots=True)
class WordTokens:
    """Words end to end.

    Attributes:
        ids: int64 `(num_tokens,)`.
        sizes: int64 `(num_words,)`, tokens of each.
    """

    ids: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, encoding: Encoding, num_words: int) -> "WordTokens":
        """Read what was tokenised as words, without special tokens; some words may have none."""
        words = np.array(encoding.word_ids, dtype=np.int64)
        return cls(np.array(encoding.ids, dtype=np.int64), np.bincount(words, minlength=num_words))

    @classmethod
    def joined(cls, parts: "Sequence[WordTokens]") -> "WordTokens":
        """Return all words, end to end."""
        nothing = np.zeros(0, dtype=np.int64)
        ids = np.concatenate([nothing, *(one.ids for one in parts)])
        return cls(ids, np.concatenate([nothing, *(one.sizes for one in parts)]))

    def picked(self, which: np.ndarray, counts: Sequence[int]) -> "list[WordTokens]":
        """Return texts of these words, by the places of all texts' words and how many each has."""
        sizes = self.sizes[which]
        # Where each word's tokens are here, less where they go.
        shifts = (np.cumsum(self.sizes) - self.sizes)[which] - (np.cumsum(sizes) - sizes)
        ids = self.ids[np.arange(sizes.sum()) + np.repeat(shifts, sizes)]
        words = (0, *accumulate(counts))
        tokens = np.append(0, np.cumsum(sizes))[list(words)].tolist()
        return [
            WordTokens(ids[own[0] : own[1]], sizes[word[0] : word[1]])
            for own, word in zip(pairwise(tokens), pairwise(words), strict=True)
        ]

    def kept(self, room: int) -> "tuple[WordTokens, np.ndarray]":
        """Return them without words of no token, the others cut to so many, and which those are."""
        if self.sizes.all() and self.sizes.max(initial=0) <= room:
            return self, np.arange(len(self.sizes))
        words = np.flatnonzero(self.sizes)
        ids, sizes = self.ids, self.sizes[words]
        if sizes.max(initial=0) > room:
            starts = np.cumsum(sizes) - sizes
            ids = ids[np.arange(len(ids)) - np.repeat(starts, sizes) < room]
            sizes = np.minimum(sizes, room)
        return WordTokens(ids, sizes), words

    def part(self, first: int, last: int) -> "WordTokens":
        """Return the words from `first` to `last` (exclusive)."""
        before = int(self.sizes[:first].sum())
        sizes = self.sizes[first:last]
        return WordTokens(self.ids[before : before + int(sizes.sum())], sizes)

    def pieces(self) -> list[list[int]]:
        """Return the ids of each word."""
        ends = np.cumsum(self.sizes).tolist()
        return [
            self.ids[end - size : end].tolist()
            for end, size in zip(ends, self.sizes.tolist(), strict=True)
        ]
