"""Which sentences to keep within a budget: the best, and some of their neighbours. Numbers only."""

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence

# Both measured on XQuAD, six passages a text (evals/LOG.md, sentence selection): from 250 tokens
# on they raise the share of answers that are kept, for cosines and for late interaction.
NEIGHBOUR_WEIGHT = 0.3  # of the better neighbour's score, added to a sentence's own
NEIGHBOUR_SHARE = 0.15  # of the budget, for neighbours of the best: "it" keeps its meaning
# Chosen on half of XQuAD's articles, reported on the other (evals/filter_context.py).
WORDS_WEIGHT = 0.5  # of the words' scores, beside those of the meaning
LEAST = 0.3  # of the way from the median score to the best: what lies below is not kept
CLEAR = 0.8  # of the same way: what lies above may keep its neighbours


def fuse(meaning: Sequence[float], words: Sequence[float]) -> list[float]:
    """Add scores of two kinds, each in standard deviations from its mean."""
    return [
        first + WORDS_WEIGHT * second
        for first, second in zip(_standardised(meaning), _standardised(words), strict=True)
    ]


def smooth(scores: Sequence[float], groups: Sequence[int]) -> list[float]:
    """Add to each score a part of its better neighbour's; `groups` says which are one text."""
    smoothed = []
    for place, score in enumerate(scores):
        near = [scores[other] for other in _neighbours(place, groups)]
        smoothed.append(score + NEIGHBOUR_WEIGHT * max(near, default=score))
    return smoothed


def worth_keeping(scores: Sequence[float], groups: Sequence[int], least: float = LEAST) -> set[int]:
    """Return the places that stand out, with the neighbours of those that clearly do.

    A budget is a limit and need not be spent: where one place is far better than most, few are
    worth reading; where all are alike, all are.
    """
    median = statistics.median(scores)
    way = max(scores) - median
    kept = {place for place, score in enumerate(scores) if score >= median + least * way}
    clear = [place for place in kept if scores[place] >= median + CLEAR * way]
    return kept.union(*(_neighbours(place, groups) for place in clear))


def select(
    costs: Sequence[int],
    scores: Sequence[float],
    groups: Sequence[int],
    budget: int,
    allowed: Collection[int] | None = None,
) -> list[int]:
    """Choose places that cost at most `budget`: the best, their neighbours, then what still fits.

    Args:
        costs: What each place costs.
        scores: How good it is.
        groups: Which places are one text.
        budget: What all of them may cost.
        allowed: The places to choose from; None: all.

    Returns:
        The places, ascending; ties in score go to the earlier place.
    """
    places = range(len(scores)) if allowed is None else sorted(allowed)
    order = sorted(places, key=lambda place: (-scores[place], place))
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
    near = [other for place in best for other in _neighbours(place, groups)]
    keep((place for place in near if allowed is None or place in allowed), budget)
    keep(order, budget)
    return sorted(kept)


def _standardised(scores: Sequence[float]) -> list[float]:
    """Return distances from the mean in standard deviations; zeros where all are alike."""
    mean = statistics.fmean(scores)
    # Sums differ in their last bits; a spread of that size is none.
    spread = statistics.pstdev(scores, mean)
    if spread <= 1e-9 * max(1.0, abs(mean)):
        return [0.0] * len(scores)
    return [(score - mean) / spread for score in scores]


def _neighbours(place: int, groups: Sequence[int]) -> Iterator[int]:
    for other in (place - 1, place + 1):
        if 0 <= other < len(groups) and groups[other] == groups[place]:
            yield other
