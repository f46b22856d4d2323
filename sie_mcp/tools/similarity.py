"""Nearest vectors by dot product, in blocks, with ties in a fixed order. Numbers only."""

from collections.abc import Iterator

import numpy as np

# Numbers in one block of scores: 16 MB of float32.
BLOCK_SCORES = 4_000_000
# Values of a group, and how many groups there are for each that is looked for: with fewer, too
# many values would reach the maxima.
GROUP, GROUPS_PER_MATCH = 32, 4


def top_matches(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the `k` best vectors of each query: their indices and scores, best first.

    Args:
        queries: float32 `(num_queries, dims)`.
        vectors: float32 `(num_vectors, dims)`, may be mapped from disk.
        k: At most num_vectors.

    Returns:
        int64 and float32 arrays `(num_queries, k)`; of equal scores the lower index comes first.
    """
    indices = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k), dtype=np.float32)
    for start, block in _score_blocks(queries, vectors):
        for row, values in enumerate(block, start):
            indices[row] = best(values, k)
            scores[row] = values[indices[row]]
    return indices, scores


def top_pairs(vectors: np.ndarray, k: int) -> list[tuple[int, int, float]]:
    """Return the `k` most similar pairs `(i, j, score)`, i < j, best first."""
    found: list[tuple[int, int, float]] = []
    for start, block in _score_blocks(vectors, vectors):
        for row, values in enumerate(block, start):
            later = values[row + 1 :]
            nearest = best(later, min(k, len(later)))
            found += [(row, row + 1 + int(j), float(later[j])) for j in nearest]
        found = sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))[:k]
    return found


def _score_blocks(queries: np.ndarray, vectors: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    step = max(1, BLOCK_SCORES // max(1, len(vectors)))
    for start in range(0, len(queries), step):
        yield start, queries[start : start + step] @ vectors.T


def best(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the `k` largest values, largest first, ties by index."""
    if 0 < k < len(values):
        candidates = np.flatnonzero(values >= _threshold(values, k))
    else:
        candidates = np.arange(len(values))
    return candidates[np.argsort(-values[candidates], kind="stable")][:k]


def _threshold(values: np.ndarray, k: int) -> float:
    """Return a number that at least `k` values reach, and few more do.

    Of many values the `k`th largest of groups' maxima: as many values reach it, one of each such
    group, and a pass that takes maxima is seven times as fast as one that puts in order.
    """
    num_groups = len(values) // GROUP
    if num_groups >= GROUPS_PER_MATCH * k:
        values = values[: num_groups * GROUP].reshape(GROUP, num_groups).max(axis=0)
    threshold: float = np.partition(values, len(values) - k)[len(values) - k]
    return threshold
