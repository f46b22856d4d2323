"""Clusters of unit vectors: k-means (Lloyd, 1982) from greedy k-means++. Numbers only.

Own code, as scikit-learn with scipy is 200 MB for these lines, and its ways to leave noise out keep
a square matrix. The same input gives the same clusters: the random numbers have a fixed seed.
Centres are means, not directions: a loose cluster, whose mean is short, then takes what fits none,
and the others stay clean (`evals/results/similar.json`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sie_mcp.tools.similarity import BLOCK_SCORES
from sie_mcp.tools.vectors import TINY

MAX_ROUNDS = 30
STARTS = 3
MAX_CLUSTERS = 256
# Numbers of clusters that are tried where none is given.
_CANDIDATES = (
    2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 200, 256
)  # fmt: skip
# They are tried on so many vectors.
SAMPLE = 3_000
# More clusters must be worth so much of silhouette: it rises beyond the number of intents of
# banking77 and CLINC150 too, but slowly.
WORTH = 0.02
# How far below the median similarity noise begins, in spreads; a spread is at least so much.
NOISE_SPREADS = 2.0
MIN_SPREAD = 0.05
# Of the vectors at most so many change their cluster in the last round.
SETTLED = 1e-3
SEED = 7


@dataclass(frozen=True, slots=True)
class Grouping:
    """Clusters.

    Attributes:
        labels: int64 `(num_vectors,)`, each vector's cluster.
        centres: float32 `(num_clusters, dims)`, the mean of each.
        similarity: float32 `(num_vectors,)`, each vector's cosine to its centre.
    """

    labels: np.ndarray
    centres: np.ndarray
    similarity: np.ndarray


def group(vectors: np.ndarray, num_clusters: int, *, starts: int = 1) -> Grouping:
    """Cluster float32 `(num_vectors, dims)` of length 1 into `num_clusters`, or into fewer.

    The tightest of several starts is taken, as k-means ends where no single step is better.
    """
    random = np.random.default_rng(SEED)
    found = [_group(vectors, num_clusters, random) for _ in range(starts)]
    return max(found, key=lambda one: float(one.similarity.sum()))


def _group(vectors: np.ndarray, num_clusters: int, random: np.random.Generator) -> Grouping:
    centres = _first_centres(vectors, num_clusters, random)
    labels, similarity = _nearest(vectors, centres)
    for _ in range(MAX_ROUNDS):
        centres = _centres(vectors, labels, similarity, num_clusters)
        before = labels
        labels, similarity = _nearest(vectors, centres)
        if np.count_nonzero(labels != before) <= SETTLED * len(vectors):
            break
    return Grouping(labels, centres, similarity)


def candidates(num_vectors: int) -> list[int]:
    """Return which numbers of clusters to try."""
    return [num for num in _CANDIDATES if num <= num_vectors // 2]


def sample(vectors: np.ndarray) -> np.ndarray:
    """Return some of many vectors, in order."""
    if len(vectors) <= SAMPLE:
        return vectors
    places = np.random.default_rng(SEED).choice(len(vectors), SAMPLE, replace=False)
    return vectors[np.sort(places)]


def choose(silhouettes: Mapping[int, float]) -> int:
    """Return the smallest number of clusters that is about as good as the best; 1 of none."""
    enough = max(silhouettes.values(), default=0.0) - WORTH
    return next((num for num, value in sorted(silhouettes.items()) if value >= enough), 1)


def noise_limit(similarity: np.ndarray) -> float:
    """Return the similarity to its centre below which a vector belongs to no cluster."""
    middle = float(np.median(similarity))
    # Scaled as a standard deviation.
    spread = 1.4826 * float(np.median(np.abs(similarity - middle)))
    return middle - NOISE_SPREADS * max(spread, MIN_SPREAD)


def silhouette(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how much nearer each vector is to its own cluster than to the next, from -1 to 1.

    Exactly the silhouette (Rousseeuw, 1987) of cosine distances: the mean distance to a cluster is
    that to its mean. A cluster of one has 0.
    """
    num = int(labels.max()) + 1
    sums = _sums(vectors, labels, num)
    counts = np.bincount(labels, minlength=num).astype(np.float32)
    result = np.empty(len(vectors), np.float32)
    step = max(1, BLOCK_SCORES // num)
    for start in range(0, len(vectors), step):
        part = slice(start, start + step)
        own = labels[part]
        rows = np.arange(len(own))
        products = vectors[part] @ sums.T
        distances = 1.0 - products / counts
        size = counts[own]
        inside = (size - products[rows, own]) / np.maximum(size - 1, 1)
        distances[rows, own] = np.inf
        outside = distances.min(axis=1)
        widest = np.maximum(np.maximum(inside, outside), TINY)
        result[part] = np.where(size > 1, (outside - inside) / widest, 0.0)
    return result


def _first_centres(
    vectors: np.ndarray, num_clusters: int, random: np.random.Generator
) -> np.ndarray:
    """Choose vectors far from each other (k-means++, Arthur and Vassilvitskii, 2007, greedy)."""
    trials = 2 + int(np.log(num_clusters))
    chosen = [int(random.integers(len(vectors)))]
    distances = np.maximum(1.0 - vectors @ vectors[chosen[0]], 0.0)
    while len(chosen) < num_clusters:
        total = np.cumsum(distances, dtype=np.float64)
        places = np.searchsorted(total, random.random(trials) * total[-1])
        places = np.minimum(places, len(vectors) - 1)
        options = np.minimum(distances[:, None], 1.0 - vectors @ vectors[places].T)
        options = np.maximum(options, 0.0)
        best = int(np.argmin(options.sum(axis=0)))
        chosen.append(int(places[best]))
        distances = options[:, best]
    return vectors[chosen]


def _nearest(vectors: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest centre of each vector, and the cosine to it."""
    labels = np.empty(len(vectors), np.int64)
    similarity = np.empty(len(vectors), np.float32)
    lengths = np.linalg.norm(centres, axis=1)
    step = max(1, BLOCK_SCORES // len(centres))
    for start in range(0, len(vectors), step):
        part = slice(start, start + step)
        products = vectors[part] @ centres.T
        labels[part] = nearest = (products - lengths**2 / 2).argmax(axis=1)
        own = products[np.arange(len(nearest)), nearest]
        similarity[part] = own / np.maximum(lengths[nearest], TINY)
    return labels, similarity


def _centres(
    vectors: np.ndarray, labels: np.ndarray, similarity: np.ndarray, num_clusters: int
) -> np.ndarray:
    """Return the clusters' means; one without members begins again at an outlier."""
    sums = _sums(vectors, labels, num_clusters)
    counts = np.bincount(labels, minlength=num_clusters)
    empty = np.flatnonzero(counts == 0)
    sums[empty] = vectors[np.argsort(similarity, kind="stable")[: len(empty)]]
    means: np.ndarray = sums / np.maximum(counts, 1)[:, None].astype(np.float32)
    return means


def _sums(vectors: np.ndarray, labels: np.ndarray, num: int) -> np.ndarray:
    """Return the sum of each cluster's vectors, float32 `(num, dims)`."""
    sums = np.zeros((num, vectors.shape[1]), np.float32)
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    sums[present] = np.add.reduceat(vectors[order], starts, axis=0)
    return sums
