"""From scores of nodes to a decision in the tree: evidence of a branch, probability, and depth.

Numbers only. A node is likelier where its whole branch is: the probabilities below a top-level
category and below a node's parent add up there, and count as evidence for each node in them. The
constants were measured by evals/taxonomy.py; they are in standard deviations of the scores over
the taxonomy, so that they hold for any model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WORDS_WEIGHT = 0.5  # of shared words, a cosine, beside scores in standard deviations
# Of a picture beside its text's models together; chosen, not measured: no labelled pictures were at
# hand. Below 1, so that a picture decides between categories that the text leaves open.
IMAGE_WEIGHT = 0.5
BRANCH_TEMPERATURE = 0.6
BRANCH_WEIGHT = 0.6
# What an example says of its node, of those beside it, and of its top category: where one product
# is, others like it may be too. Chosen most often inside training folds (evals/LOG.md, 17).
EXAMPLE_WEIGHTS = (4.0, 2.0, 4.0)
EXAMPLE_FLOOR = 0.2  # examples less alike than this say nothing
# What cosines of these models are divided by before the softmax. Fitted on half of banking77:
# calibration error .05 on the other half, .07 on CLINC150, where a temperature of 1 has .59 and .67
# (python -m evals.calibration).
COSINE_TEMPERATURE = 0.06
MEASURED = ("all-MiniLM-L6-v2",)
# Flat labels to which cosines alone say how sure is right; more have not been measured.
MAX_LABELS = 200
TINY = 1e-9
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """How often what has a share is right: a logistic curve over the share's logarithm."""

    slope: float
    offset: float

    def confidence(self, share: float) -> float:
        """Return how often a node, or a branch, with this mean share is the right one."""
        odds = self.slope * math.log(max(share, TINY)) + self.offset
        return 1 / (1 + math.exp(-odds))


# Fitted on names of categories put into another taxonomy, not on products (evals/taxonomy.py).
PRODUCTS = Curve(1.52, 3.94)
# Fitted on one half of the categories of Shopify that Google's are known for, for the other half.
MAPPINGS = Curve(1.75, 4.25)


@dataclass(frozen=True, slots=True)
class _Edges:
    """Where different branches start and end in the sorted paths, and which one each node is in."""

    starts: np.ndarray
    ends: np.ndarray
    of_node: np.ndarray


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
        # Nodes of one parent have one top category.
        self._top_of_parent = np.empty(len(self._parent.starts), np.int64)
        self._top_of_parent[self._parent.of_node] = self._top.of_node
        self._is_below = [len(path) > 1 for path in paths]

    @property
    def are_labels(self) -> bool:
        """Whether no node is below another, and there are few."""
        return len(self._is_below) <= MAX_LABELS and not any(self._is_below)

    def decide(
        self,
        scores: np.ndarray,
        *,
        temperature: float = BRANCH_TEMPERATURE,
        weight: float = BRANCH_WEIGHT,
    ) -> np.ndarray:
        """Add the evidence of the branches to scores `(num_texts, num_nodes)`.

        Of a flat list a branch is its node, whose evidence must not count again.
        """
        if not any(self._is_below):
            return scores.copy()
        sums = self._sums(softmax(scores, temperature))
        top, parent = (
            weight * temperature * np.log(np.maximum(_differences(sums, edges), 0) + TINY)
            for edges in (self._top, self._parent)
        )
        # What is above a parent is the same for all of its nodes.
        evidence = (parent + np.take(top, self._top_of_parent, axis=1)).astype(scores.dtype)
        decided: np.ndarray = scores + np.take(evidence, self._parent.of_node, axis=1)
        return decided

    def add_examples(
        self,
        scores: np.ndarray,
        likeness: np.ndarray,
        nodes: Sequence[int],
        *,
        weights: tuple[float, float, float] = EXAMPLE_WEIGHTS,
    ) -> np.ndarray:
        """Raise nodes by how like a text the nearest example in them, beside and above them is.

        An example at the top speaks for itself alone, with all three weights.

        Args:
            scores: As `fuse` returns them.
            likeness: Cosines `(num_texts, num_examples)`.
            nodes: The examples' nodes.
            weights: Of a node, of the nodes of its parent, and of its top category.
        """
        own = np.arange(scores.shape[1])
        groups = (own, self._parent.of_node, self._top.of_node)
        raised = scores.copy()
        below = [column for column, node in enumerate(nodes) if self._is_below[node]]
        for weight, group in zip(weights, groups, strict=True):
            raised += weight * _nearest(likeness, nodes, below, group)[:, group]
        tops = [column for column, node in enumerate(nodes) if not self._is_below[node]]
        if tops:
            raised += sum(weights) * _nearest(likeness, nodes, tops, own)
        return raised

    def share(self, shares: np.ndarray, prefix: Names) -> float:
        """Add up one text's shares `(num_nodes,)` of `prefix` and all below it."""
        start, end = self._ranges[prefix]
        return float(shares[self._order[start:end]].sum())

    def _sums(self, probabilities: np.ndarray) -> np.ndarray:
        """Running sums in the order of the paths, so that a branch is a difference of two."""
        # In float64: branches are differences of sums that can be a million times as large.
        sums = np.zeros((len(probabilities), len(self._order) + 1))
        np.cumsum(np.take(probabilities, self._order, axis=1), axis=1, out=sums[:, 1:])
        return sums

    def _edges(self, prefixes: Sequence[Names]) -> _Edges:
        places = {prefix: place for place, prefix in enumerate(dict.fromkeys(prefixes))}
        edges = np.array([self._ranges[prefix] for prefix in places])
        return _Edges(edges[:, 0], edges[:, 1], np.array([places[prefix] for prefix in prefixes]))


def _differences(sums: np.ndarray, edges: _Edges) -> np.ndarray:
    found: np.ndarray = np.take(sums, edges.ends, axis=1) - np.take(sums, edges.starts, axis=1)
    return found


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
    pictures: np.ndarray | None = None,
) -> np.ndarray:
    """Fuse several models' cosines and the shared words, all `(num_texts, num_nodes)`.

    `pictures` are an image model's cosines; a row of zeros, no picture, changes nothing.
    """
    zero = np.zeros(1, np.float32)
    mean = sum((standardise(one) for one in similarities), zero) / len(similarities)
    fused = mean + words_weight * shared_words
    if pictures is not None:
        fused = fused + IMAGE_WEIGHT * standardise(pictures)
    return standardise(fused)


def _nearest(
    likeness: np.ndarray, nodes: Sequence[int], columns: Sequence[int], group: np.ndarray
) -> np.ndarray:
    """Return how like the nearest example of each group is, above the floor."""
    nearest = np.zeros((len(likeness), int(group.max()) + 1), np.float32)
    for column in columns:
        near = nearest[:, group[nodes[column]]]
        np.maximum(near, likeness[:, column] - EXAMPLE_FLOOR, out=near)
    return nearest


def probabilities(decided: np.ndarray) -> np.ndarray:
    """Return each node's share of the evidence, `(num_texts, num_nodes)`; a row adds up to 1."""
    return softmax(decided, 1.0)


def mean_share(shares: Sequence[float]) -> float:
    """Return the geometric mean of what each model gives a node or branch: all must like it."""
    return math.exp(sum(math.log(max(share, TINY)) for share in shares) / len(shares))


def softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return shares of rows `(num_texts, num_nodes)`, each of which adds up to 1."""
    raised = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    shares: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return shares
