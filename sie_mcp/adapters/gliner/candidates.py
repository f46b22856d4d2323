"""From one window's scores to candidates: spans of words whose label scores over its threshold.

Source: the span and the token decoder of the gliner package. Knows words by number alone.
"""

from collections.abc import Sequence as Series
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# The best of a window, where a low threshold lets in more than anybody reads.
MAX_CANDIDATES = 20_000
# Logits that are looked at together, and those of one window more: where a threshold lets all of
# them in, each takes many bytes beside its own four, and a long text has hundreds of millions.
MAX_LOGITS = 2**20
# More than rounding can move a score over a threshold, as a logit.
_MARGIN = 1e-2


@dataclass(frozen=True, slots=True)
class Candidates:
    """Spans of words, in order: arrays of one length.

    Attributes:
        firsts: int64, the first word of each.
        lasts: int64, the word after its last one.
        labels: int64, the place of its label.
        scores: float32, its probability.
    """

    firsts: np.ndarray
    lasts: np.ndarray
    labels: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.scores)

    def some(self, which: np.ndarray) -> "Candidates":
        """Return those that a mask or places name."""
        return Candidates(
            self.firsts[which], self.lasts[which], self.labels[which], self.scores[which]
        )


def span_candidates(logits: np.ndarray, thresholds: np.ndarray) -> Candidates:
    """Return the spans over the threshold, by start, width and label.

    Args:
        logits: float32 `(num_words, max_width, num_labels)`.
        thresholds: float64 `(num_labels,)`; a score must be over it.
    """
    return span_candidates_of([logits], thresholds)[0]


def span_candidates_of(
    windows: Series[np.ndarray], thresholds: np.ndarray
) -> tuple[Candidates, np.ndarray]:
    """Return what `span_candidates` does for each window, one after the other, and whose it is."""
    totals = np.cumsum([one.size for one in windows])
    cuts = np.flatnonzero(np.diff(totals // MAX_LOGITS)) + 1
    places = list(pairwise((0, *cuts.tolist(), len(windows))))
    parts = [_span_candidates(windows[first:last], thresholds) for first, last in places]
    if len(parts) == 1:
        return parts[0]
    owners = [own + first for (_, own), (first, _) in zip(parts, places, strict=True)]
    return joined([found for found, _ in parts])[0], np.concatenate(owners)


def word_candidates_of(
    windows: Series[np.ndarray], thresholds: np.ndarray
) -> tuple[Candidates, np.ndarray]:
    """Return what `word_candidates` does for each window, one after the other, and whose it is."""
    return joined([word_candidates(one, thresholds) for one in windows])


def joined(parts: Series[Candidates]) -> tuple[Candidates, np.ndarray]:
    """Return all candidates, and which part each is of; there is at least one part."""
    whole = Candidates(
        np.concatenate([one.firsts for one in parts]),
        np.concatenate([one.lasts for one in parts]),
        np.concatenate([one.labels for one in parts]),
        np.concatenate([one.scores for one in parts]),
    )
    return whole, np.repeat(np.arange(len(parts)), [len(one) for one in parts])


def word_candidates(logits: np.ndarray, thresholds: np.ndarray) -> Candidates:
    """Return runs of words that start, end and go on with a label, by label, start and end.

    A run scores what the least sure of its words does, as a start, an end or an inside.

    Args:
        logits: float32 `(num_words, num_labels, 3)`.
        thresholds: float64 `(num_labels,)`; start and end must be over it, no inside under it.
    """
    scores = _sigmoid(logits)
    found: list[np.ndarray] = [np.zeros((3, 0), dtype=np.int64)]
    values: list[np.ndarray] = [np.zeros(0, dtype=scores.dtype)]
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
    firsts, ends, labels = np.concatenate(found, axis=1)
    return _best(Candidates(firsts, ends, labels, np.concatenate(values)))


def _span_candidates(
    windows: Series[np.ndarray], thresholds: np.ndarray
) -> tuple[Candidates, np.ndarray]:
    logits = np.concatenate(windows)
    max_width, num_labels = logits.shape[1:]
    # Only what is near a threshold or over it becomes a probability: that is far less to compute.
    flat, lower = (
        logits.reshape(-1, max_width * num_labels),
        np.tile(_as_logits(thresholds), max_width),
    )
    near = np.flatnonzero(flat >= lower)
    places, labels = np.divmod(near, num_labels)
    starts, widths = np.divmod(places, max_width)
    scores = _sigmoid(flat.reshape(-1)[near])
    counts = np.array([len(one) for one in windows])
    ends = np.cumsum(counts)
    owners = np.repeat(np.arange(len(windows)), counts)[starts]
    lasts = starts + widths + 1
    fits = (lasts <= ends[owners]) & (scores > thresholds[labels])
    before = (ends - counts)[owners]
    found = Candidates(starts - before, lasts - before, labels, scores).some(fits)
    owners = owners[fits]
    most = np.bincount(owners, minlength=1).max()
    if most <= MAX_CANDIDATES:
        return found, owners
    return joined([_best(found.some(owners == one)) for one in range(len(windows))])


def _best(found: Candidates) -> Candidates:
    """Return candidates in order; only the best where there are too many."""
    if len(found) <= MAX_CANDIDATES:
        return found
    return found.some(np.sort(np.argsort(-found.scores, kind="stable")[:MAX_CANDIDATES]))


def _as_logits(thresholds: np.ndarray) -> np.ndarray:
    """Return logits that are a little lower than those of the thresholds, float32.

    Far from zero float32 is too coarse, as a probability or as its logit: there they are lower yet.
    """
    with np.errstate(divide="ignore"):
        exact = np.log(thresholds) - np.log1p(-thresholds)
    lower: np.ndarray = np.where(exact < -70, -np.inf, np.minimum(exact, 9.0) - _MARGIN)
    return lower.astype(np.float32)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    # Beyond 80 it is 0 or 1 in float32 anyway, and its exponential would overflow.
    clipped = np.clip(logits, -80.0, 80.0)
    probabilities: np.ndarray = 1.0 / (1.0 + np.exp(-clipped))
    return probabilities
