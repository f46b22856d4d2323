"""Which sentences to keep within a budget: the best, and some of their neighbours. Numbers only."""

from collections.abc import Iterable, Iterator, Sequence

# Both measured on XQuAD, six passages a text (evals/LOG.md, sentence selection): from 250 tokens
# on they raise the share of answers that are kept, for cosines and for late interaction.
NEIGHBOUR_WEIGHT = 0.3  # of the better neighbour's score, added to a sentence's own
NEIGHBOUR_SHARE = 0.15  # of the budget, for neighbours of the best: "it" keeps its meaning


def smooth(scores: Sequence[float], groups: Sequence[int]) -> list[float]:
    """Add to each score a part of its better neighbour's; `groups` says which are one text."""
    smoothed = []
    for place, score in enumerate(scores):
        near = [scores[other] for other in _neighbours(place, groups)]
        smoothed.append(score + NEIGHBOUR_WEIGHT * max(near, default=score))
    return smoothed


def select(
    costs: Sequence[int], scores: Sequence[float], groups: Sequence[int], budget: int
) -> list[int]:
    """Choose places that cost at most `budget`: the best, their neighbours, then what still fits.

    Returns:
        The places, ascending; ties in score go to the earlier place.
    """
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    kept: set[int] = set()

    def keep(candidates: Iterable[int], limit: int) -> None:
        left = limit - sum(costs[place] for place in kept)
        for place in candidates:
            if place not in kept and costs[place] <= left:
                kept.add(place)
                left -= costs[place]

    keep(order[:1], budget)
    keep(order, int(budget * (1 - NEIGHBOUR_SHARE)))
    best = [place for place in order if place in kept]
    keep([other for place in best for other in _neighbours(place, groups)], budget)
    keep(order, budget)
    return sorted(kept)


def _neighbours(place: int, groups: Sequence[int]) -> Iterator[int]:
    for other in (place - 1, place + 1):
        if 0 <= other < len(groups) and groups[other] == groups[place]:
            yield other
