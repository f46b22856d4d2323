"""The tokens of a text that was cut into words. Knows no model and no text."""

from dataclasses import dataclass

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

    def kept(self, room: int) -> "tuple[WordTokens, np.ndarray]":
        """Return them without words of no token, the others cut to so many, and which those are."""
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
