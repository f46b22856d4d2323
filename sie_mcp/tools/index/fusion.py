"""Rankings joined by reciprocal rank (Cormack, Clarke and Büttcher, 2009). Numbers only."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)
# The paper's constant: how little the first places count over the next ones.
RANK_OFFSET = 60


def fuse(rankings: Sequence[Sequence[ItemT]]) -> list[tuple[ItemT, float]]:
    """Return all items with their scores, best first; ties in the order of the rankings.

    A score of 1 is the first place in every ranking.
    """
    scores: dict[ItemT, float] = {}
    best = len(rankings) / (RANK_OFFSET + 1)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (RANK_OFFSET + rank) / best
    return sorted(scores.items(), key=lambda pair: -pair[1])
