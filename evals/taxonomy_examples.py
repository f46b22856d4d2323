"""Few-shot: texts classified with the labels of others. Knows no models."""

import itertools
from dataclasses import replace

import numpy as np

from evals.taxonomy_seen import Seen
from sie_mcp.tools.belief import Evidence

NUM_FOLDS = 5
SEEDS = 5
NUM_SHOTS = 5
# Weights of an example: of its node, of those beside it, and of its top category.
GRID = ((4.0, 6.0, 8.0, 10.0), (0.0, 2.0), (0.0, 2.0, 4.0, 6.0))
Weights = tuple[float, float, float]


def few_shot(seen: Seen, *, tuned: bool) -> np.ndarray:
    """Classify each fold with the labels of the other four; the mean over seeds.

    Tuned: the weights of examples are chosen anew in each fold, each example left out once.
    """
    found = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(seen.words))
        best = np.empty(len(order), int)
        for fold in range(NUM_FOLDS):
            test, train = order[fold::NUM_FOLDS], np.setdiff1d(order, order[fold::NUM_FOLDS])
            weights = _left_out(seen, train) if tuned else None
            best[test] = _with_weights(seen, seen.evidence(train, test), weights)
        found.append(seen.right(best).mean(axis=0))
    mean: np.ndarray = np.mean(found, axis=0)
    return mean


def _left_out(seen: Seen, train: np.ndarray) -> Weights:
    evidence = seen.evidence(train, train)
    np.fill_diagonal(evidence.likeness, -1.0)

    def goodness(weights: Weights) -> float:
        best = np.array(seen.of.gold.node)
        best[train] = _with_weights(seen, evidence, weights)
        right = seen.right(best)[train]
        return float(right[:, [0, 3]].sum())

    return max(itertools.product(*GRID), key=goodness)


def _with_weights(seen: Seen, evidence: Evidence, weights: Weights | None) -> np.ndarray:
    if weights is not None:
        evidence = replace(evidence, example_weights=weights)
    best: np.ndarray = evidence.shares(seen.branches).argmax(axis=1)
    return best


def shots(seen: Seen) -> dict[str, float]:
    """Classify with five examples of each category, and without."""
    nodes = np.array(seen.of.gold.node)
    order = np.random.default_rng(0).permutation(len(nodes))
    train = [one for node in np.unique(nodes) for one in order[nodes[order] == node][:NUM_SHOTS]]
    test = np.setdiff1d(order, train)
    zero = seen.evidence((), test).shares(seen.branches).argmax(axis=1)
    few = seen.evidence(train, test).shares(seen.branches).argmax(axis=1)
    return {
        "zero-shot": float((zero == nodes[test]).mean()),
        f"{NUM_SHOTS} examples of each": float((few == nodes[test]).mean()),
    }
