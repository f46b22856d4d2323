"""Confidence on plain numbers: curves fitted here, scored there, and how good they are."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

NUM_BINS = 10
NUM_FOLDS = 5
SEEDS = 5
NUM_DRAWN = 500


def fit(logs: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Fit a logistic curve over the logarithm of shares: slope and offset."""

    def loss(line: np.ndarray) -> float:
        odds = line[0] * logs + line[1]
        return float((np.logaddexp(0, odds) - right * odds).sum() + line[0] ** 2 / 2)

    slope, offset = minimize(loss, np.zeros(2)).x
    return float(slope), float(offset)


def held_out(logs: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Fit on four folds for the fifth; each seed is scored by itself, then the mean."""
    found = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(logs))
        confidence = np.empty(len(logs))
        for fold in range(NUM_FOLDS):
            test = order[fold::NUM_FOLDS]
            train = np.setdiff1d(order, test)
            slope, offset = fit(logs[train], right[train])
            confidence[test] = expit(slope * logs[test] + offset)
        found.append(calibration(confidence, right))
    return mean(found)


def mean(tables: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure."""
    return {key: float(np.mean([one[key] for one in tables])) for key in tables[0]}


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Return the calibration error, and accuracy of the surest half and quarter."""
    bins = _bins(confidence)
    error = _error(confidence - right, bins)
    chance = _chance_errors(confidence, bins)
    low, high = np.quantile(_drawn_errors(confidence, right), (0.025, 0.975))
    surest = np.argsort(-confidence, kind="stable")
    return {
        "mean confidence": float(confidence.mean()),
        "strict@1": float(right.mean()),
        "ECE (10 bins)": error,
        "95 % from": float(low),
        "to": float(high),
        "ECE that perfect calibration shows at this size": float(chance.mean()),
        "ECE above that": max(0.0, error - float(chance.mean())),
        "perfect calibration shows .05 or less in": float((chance <= 0.05).mean()),
        "Brier": float(((confidence - right) ** 2).mean()),
        "strict@1 at 50 % coverage": float(right[surest[: len(right) // 2]].mean()),
        "strict@1 at 25 % coverage": float(right[surest[: len(right) // 4]].mean()),
    }


def reliability(confidence: np.ndarray, right: np.ndarray) -> list[tuple[float, float, int]]:
    """Return mean confidence, accuracy and count of each bin that holds anything."""
    bins = _bins(confidence)
    filled = [bins == one for one in range(NUM_BINS) if (bins == one).any()]
    return [(float(confidence[m].mean()), float(right[m].mean()), int(m.sum())) for m in filled]


def risk_coverage(confidence: np.ndarray, right: np.ndarray) -> Sequence[tuple[float, float]]:
    """Return coverage and accuracy as more and more texts are answered, the surest first."""
    surest = right[np.argsort(-confidence, kind="stable")]
    counts = np.arange(1, len(right) + 1)
    accuracy = np.cumsum(surest) / counts
    return [(float(a), float(b)) for a, b in zip(counts / len(right), accuracy, strict=True)]


def _bins(confidence: np.ndarray) -> np.ndarray:
    return np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)


def _chance_errors(confidence: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Return the ECEs that outcomes drawn from the confidences themselves have."""
    random = np.random.default_rng(0)
    return np.array(
        [
            _error(confidence - (random.random(len(confidence)) < confidence), bins)
            for _ in range(NUM_DRAWN)
        ]
    )


def _drawn_errors(confidence: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the ECEs of as many texts drawn again: drawing adds noise, so they lie higher."""
    random, gap, bins = np.random.default_rng(0), confidence - right, _bins(confidence)
    drawn = (random.integers(len(right), size=len(right)) for _ in range(NUM_DRAWN))
    return np.array([_error(gap[rows], bins[rows]) for rows in drawn])


def _error(gap: np.ndarray, bins: np.ndarray) -> float:
    sums = np.bincount(bins, weights=gap, minlength=NUM_BINS)
    return float(abs(sums).sum() / len(gap))
