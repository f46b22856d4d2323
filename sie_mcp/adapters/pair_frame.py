"""The special tokens around two texts that are read together. Knows no model."""

from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer


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

    def around(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the ids of a pair and its type ids, None where all are zero."""
        before, between, after = self.ids
        ids = np.concatenate([before, first, between, second, after])
        own = [np.full(len(first), self.own_types[0]), np.full(len(second), self.own_types[1])]
        types = np.concatenate([self.types[0], own[0], self.types[1], own[1], self.types[2]])
        return ids, types if types.any() else None


def pair_frame(tokenizer: Tokenizer) -> PairFrame:
    """Find out what a tokenizer puts around a pair."""
    first, second = (tokenizer.encode("a", add_special_tokens=False) for _ in range(2))
    whole = tokenizer.post_process(first, second, add_special_tokens=True)
    is_special = list(whole.special_tokens_mask)
    start = is_special.index(0)
    other = is_special.index(0, start + len(first.ids))
    cuts = ((0, start), (start + len(first.ids), other), (other + len(second.ids), len(is_special)))
    return PairFrame(
        ids=tuple(np.array(whole.ids[a:b], dtype=np.int64) for a, b in cuts),
        types=tuple(np.array(whole.type_ids[a:b], dtype=np.int64) for a, b in cuts),
        own_types=(whole.type_ids[start], whole.type_ids[other]),
    )
