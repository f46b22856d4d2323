"""From scores of nodes to a decision in the tree: evidence of a branch, probability, and depth.

Numbers only. A node is likelier where its whole branch is: the probabilities below a top-level
category and below a node's parent add up there, and count as evidence for each node in them. The
constants were measured by evals/taxonomy.py; they are in standard deviations of the scores over
the taxonomy, so that they hold for any model.
"""

import math
from collections.abc import Sequence

import numpy as np

WORDS_WEIGHT = 0.5  # of shared words, a cosine, beside scores in standard deviations
BRANCH_TEMPERATURE = 0.6
BRANCH_WEIGHT = 0.6
# From a share of all nodes to how often it is right: a logistic curve over its logarithm.
CONFIDENCE_SLOPE = 0.85
CONFIDENCE_OFFSET = 1.89
EXAMPLE_WEIGHT = 8.0
EXAMPLE_FLOOR = 0.2  # examples less alike than this say nothing
_TINY = 1e-9
Names = tuple[str, ...]


class Branches:
    """Which nodes lie below each prefix of the taxonomy's paths: ranges of the sorted paths."""

    def __init__(self, paths: Sequence[Names]) -> None:
        self._order = np.array(sorted(range(len(paths)), key=lambda node: paths[node]))
        self._ranges: dict[Names, tuple[int, int]] = {}
        for place, node in enumerate(self._order):
            path = paths[node]
            for depth in range(1, len(path) + 1):
                start, _ = self._ranges.get(path[:depth], (place, place))
                self._ranges[path[:depth]] = (start, place + 1)
        self._top = self._edges([path[:1] for path in paths])
        self._parent = self._edges([path[:-1] or path for path in paths])

    def decide(
        self,
        scores: np.ndarray,
        *,
        temperature: float = BRANCH_TEMPERATURE,
        weight: float = BRANCH_WEIGHT,
    ) -> np.ndarray:
        """Add the evidence of the branches to scores `(num_texts, num_nodes)`."""
        sums = self._sums(_softmax(scores, temperature))
        evidence = np.zeros_like(scores)
        for start, end in (self._top, self._parent):
            evidence += np.log(np.maximum(sums[:, end] - sums[:, start], 0) + _TINY)
        return scores + weight * temperature * evidence

    def share(self, shares: np.ndarray, prefix: Names) -> float:
        """Add up one text's shares `(num_nodes,)` of `prefix` and all below it."""
        start, end = self._ranges[prefix]
        return float(shares[self._order[start:end]].sum())

    def _sums(self, probabilities: np.ndarray) -> np.ndarray:
        """Running sums in the order of the paths, so that a branch is a difference of two."""
        sums = np.zeros((len(probabilities), len(self._order) + 1))
        np.cumsum(probabilities[:, self._order], axis=1, out=sums[:, 1:])
        return sums

    def _edges(self, prefixes: Sequence[Names]) -> tuple[np.ndarray, np.ndarray]:
        edges = np.array([self._ranges[prefix] for prefix in prefixes])
        return edges[:, 0], edges[:, 1]


def standardise(scores: np.ndarray) -> np.ndarray:
    """Give each row of `(num_texts, num_nodes)` mean 0 and deviation 1; equal scores are 0."""
    deviation = scores.std(axis=1, keepdims=True)
    centred: np.ndarray = (scores - scores.mean(axis=1, keepdims=True)) / np.maximum(
        deviation, 1e-6
    )
    return centred


def fuse(
    similarities: Sequence[np.ndarray],
    shared_words: np.ndarray,
    *,
    words_weight: float = WORDS_WEIGHT,
) -> np.ndarray:
    """Fuse several models' cosines and the shared words, all `(num_texts, num_nodes)`."""
    mean = sum((standardise(one) for one in similarities), np.zeros(1)) / len(similarities)
    return standardise(mean + words_weight * shared_words)


def add_examples(scores: np.ndarray, likeness: np.ndarray, nodes: Sequence[int]) -> np.ndarray:
    """Raise the nodes of labelled examples by how like the nearest of them a text is.

    Args:
        scores: As `fuse` returns them.
        likeness: Cosines `(num_texts, num_examples)`.
        nodes: The examples' nodes.
    """
    nearest = np.zeros_like(scores)
    for column, node in enumerate(nodes):
        np.maximum(nearest[:, node], likeness[:, column] - EXAMPLE_FLOOR, out=nearest[:, node])
    return scores + EXAMPLE_WEIGHT * nearest


def probabilities(decided: np.ndarray) -> np.ndarray:
    """Return each node's share of the evidence, `(num_texts, num_nodes)`; a row adds up to 1."""
    return _softmax(decided, 1.0)


def confidence(share: float) -> float:
    """Return how often a node, or a branch, with this share is the right one."""
    odds = CONFIDENCE_SLOPE * math.log(max(share, _TINY)) + CONFIDENCE_OFFSET
    return 1 / (1 + math.exp(-odds))


def _softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    raised = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    shares: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return shares
