"""From one window's scores to candidates: spans of words whose label scores over its threshold.

Source: the span and the token decoder of the gliner package. Knows words by number alone.
"""

from typing import NamedTuple

import numpy as np

# The best of a window, where a low threshold lets in more than anybody reads.
MAX_CANDIDATES = 20_000


class Candidate(NamedTuple):
    """Words `first` to `last` (exclusive), the place of a label, and its probability."""

    first: int
    last: int
    label: int
    score: float


def span_candidates(logits: np.ndarray, thresholds: np.ndarray) -> list[Candidate]:
    """Return the spans over the threshold, by start, width and label.

    Args:
        logits: float32 `(num_words, max_width, num_labels)`.
        thresholds: float64 `(num_labels,)`; a score must be over it.
    """
    scores = _sigmoid(logits)
    firsts, widths, labels = np.nonzero(scores > thresholds)
    lasts = firsts + widths + 1
    fits = lasts <= len(logits)
    found = np.stack([firsts, lasts, labels])[:, fits]
    return _best(found, scores[firsts, widths, labels][fits])


def word_candidates(logits: np.ndarray, thresholds: np.ndarray) -> list[Candidate]:
    """Return runs of words that start, end and go on with a label, by label, start and end.

    A run scores what the least sure of its words does, as a start, an end or an inside.

    Args:
        logits: float32 `(num_words, num_labels, 3)`.
        thresholds: float64 `(num_labels,)`; start and end must be over it, no inside under it.
    """
    scores = _sigmoid(logits)
    found: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for label, threshold in enumerate(thresholds):
        starts, ends, insides = scores[:, label].T
        is_start, is_end = starts > threshold, ends > threshold
        if not is_end.any():
            continue
        breaks = np.append(np.flatnonzero(insides < threshold), len(scores))
        for first in np.flatnonzero(is_start & (insides >= threshold)):
            stop = breaks[np.searchsorted(breaks, first)]
            run = slice(first, stop)
            lasts = np.flatnonzero(is_end[run])
            least = np.minimum(np.minimum.accumulate(insides[run]), starts[first])
            values.append(np.minimum(least, ends[run])[lasts])
            ones = np.ones_like(lasts)
            found.append(np.stack([ones * first, lasts + first + 1, ones * label]))
    if not found:
        return []
    return _best(np.concatenate(found, axis=1), np.concatenate(values))


def _best(found: np.ndarray, scores: np.ndarray) -> list[Candidate]:
    """Return candidates in order; only the best where there are too many."""
    if len(scores) > MAX_CANDIDATES:
        best = np.sort(np.argsort(-scores, kind="stable")[:MAX_CANDIDATES])
        found, scores = found[:, best], scores[best]
    return [
        Candidate(first, last, label, score)
        for first, last, label, score in zip(*found.tolist(), scores.tolist(), strict=True)
    ]


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    # Beyond 80 it is 0 or 1 in float32 anyway, and its exponential would overflow.
    clipped = np.clip(logits, -80.0, 80.0)
    probabilities: np.ndarray = 1.0 / (1.0 + np.exp(-clipped))
    return probabilities
