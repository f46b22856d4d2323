"""Two texts that are read together: the special tokens around them, and how much of each is read.

Knows no model.
"""

from collections.abc import Sequence as Series
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from sie_mcp.errors import ModelLoadFailed


@dataclass(frozen=True, slots=True)
class PairFrame:
    """What stands before, between and after two texts; int64 ids and type ids, 3 of each.

    Attributes:
        own_types: The type id of either text's own tokens.
    """

    ids: tuple[np.ndarray, ...]
    types: tuple[np.ndarray, ...]
    own_types: tuple[int, int]

    @property
    def num_added(self) -> int:
        """How many special tokens a pair gets."""
        return sum(map(len, self.ids))

    @property
    def num_leading(self) -> int:
        """How many of them stand before the second text."""
        return len(self.ids[0]) + len(self.ids[1])

    def types_of(self, own: Series[tuple[int, int]]) -> np.ndarray | None:
        """Return the type ids of pairs end to end, of so many own tokens each; None: all zero."""
        types, counts = [], []
        for special, own_type in zip(self.types, (*self.own_types, None), strict=True):
            types += special.tolist()
            counts += [1] * len(special)
            if own_type is not None:
                types.append(own_type)
                counts.append(0)  # Each pair's own.
        if not any(types):
            return None
        places = [place for place, count in enumerate(counts) if not count]
        table = np.tile(np.array(counts), (len(own), 1))
        table[:, places] = np.array(own).reshape(-1, 2)
        return np.repeat(np.tile(np.array(types, dtype=np.int64), len(own)), table.ravel())

    def around(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the ids of a pair and its type ids, None where all are zero."""
        before, between, after = self.ids
        ids = np.concatenate([before, first, between, second, after])
        own = [np.full(len(first), self.own_types[0]), np.full(len(second), self.own_types[1])]
        types = np.concatenate([self.types[0], own[0], self.types[1], own[1], self.types[2]])
        return ids, types if types.any() else None


def pair_frame(tokenizer: Tokenizer) -> PairFrame:
    """Find out what a tokenizer puts around a pair.

    Raises:
        ModelLoadFailed: the second text does not stand whole behind the whole first.
    """
    # Types are read from a whole call: to process two encodings apart leaves the second's out.
    whole = tokenizer.encode("a", "a")
    own = list(whole.sequence_ids)
    parts = [[place for place, one in enumerate(own) if one == part] for part in (0, 1)]
    if not all(parts) or any(one != list(range(one[0], one[-1] + 1)) for one in parts):
        raise ModelLoadFailed("the tokenizer does not put the two texts of a pair side by side")
    (start, end), (other, last) = ((one[0], one[-1] + 1) for one in parts)
    if other < end:
        raise ModelLoadFailed("the tokenizer puts the second text of a pair before the first")
    cuts = ((0, start), (end, other), (last, len(own)))
    return PairFrame(
        ids=tuple(np.array(whole.ids[a:b], dtype=np.int64) for a, b in cuts),
        types=tuple(np.array(whole.type_ids[a:b], dtype=np.int64) for a, b in cuts),
        own_types=(whole.type_ids[start], whole.type_ids[other]),
    )


def longest_first(
    num_first: int, num_second: int, room: int | None
) -> tuple[int | None, int | None]:
    """Return how many tokens of each of a pair fit into `room`; None: no cut.

    Source: the LongestFirst strategy of the tokenizers library.
    """
    if room is None or num_first + num_second <= room:
        return None, None
    short, long = sorted((num_first, num_second))
    long = short if short > room else max(short, room - short)
    if short + long > room:
        short = room // 2
        long = short + room % 2
    return (short, long) if num_first <= num_second else (long, short)


def only_first(num_first: int, num_second: int, room: int | None) -> tuple[int | None, int | None]:
    """Return how many tokens of each of a pair fit where the second is never cut."""
    if room is None or num_first + num_second <= room:
        return None, None
    return max(room - num_second, 0), None
