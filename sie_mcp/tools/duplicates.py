"""Near-duplicates among unit vectors, each grouped under one that is kept. Numbers only.

The leader algorithm (Hartigan, 1975): the vectors come in the order in which they are wanted; each
joins the most similar one kept so far, or is kept itself. So whatever is dropped is as similar as
asked for to what is kept in its place, and no chain of small steps joins what is far apart.
"""

from collections.abc import Iterator

import numpy as np

from sie_mcp.tools.similarity import BLOCK_SCORES

MIN_BLOCK, MAX_BLOCK = 32, 512
# What rounding takes from the cosine of equal vectors.
ROUNDING = 1e-5


class Leaders:
    """Who is kept, found block by block.

    Attributes:
        leader: For each vector the place of the one kept for it, maybe its own, `(num_vectors,)`.
        similarity: The cosine to it, float32 `(num_vectors,)`.
    """

    def __init__(self, vectors: np.ndarray, threshold: float, marks: np.ndarray) -> None:
        """Begin.

        Args:
            vectors: float32 `(num_vectors, dims)`, of length 1, the most wanted first.
            threshold: The least cosine of duplicates.
            marks: int64 `(num_vectors,)`; those with different marks are no duplicates.
        """
        num = len(vectors)
        self.leader = np.arange(num)
        self.similarity = np.ones(num, np.float32)
        self._vectors, self._marks = vectors, marks
        self._threshold = threshold - ROUNDING
        self._kept = np.empty_like(vectors)
        self._places = np.empty(num, np.int64)
        self._num_kept = 0

    @property
    def blocks(self) -> Iterator[slice]:
        """The parts to give to `step`, in order; a block's scores are at most 16 MB."""
        num = len(self._vectors)
        size = min(max(BLOCK_SCORES // max(num, 1), MIN_BLOCK), MAX_BLOCK)
        return (slice(start, min(start + size, num)) for start in range(0, num, size))

    def step(self, block: slice) -> None:
        """Place one block's vectors."""
        vectors, marks = self._vectors[block], self._marks[block]
        best, score = self._best_before(vectors, marks)
        within = np.where(marks[:, None] == marks[None], vectors @ vectors.T, -np.inf)
        new: list[int] = []
        for row in range(len(vectors)):
            leader, similarity = best[row], score[row]
            if new:
                nearest = int(np.argmax(within[row, new]))
                if within[row, new[nearest]] > similarity:
                    leader, similarity = block.start + new[nearest], within[row, new[nearest]]
            if similarity >= self._threshold:
                self.leader[block.start + row] = leader
                self.similarity[block.start + row] = min(similarity, 1.0)
            else:
                new.append(row)
        there = slice(self._num_kept, self._num_kept + len(new))
        self._kept[there] = vectors[new]
        self._places[there] = block.start + np.array(new, np.int64)
        self._num_kept = there.stop

    def _best_before(self, vectors: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for each vector the most similar one kept in earlier blocks, and the cosine."""
        if not self._num_kept:
            return np.zeros(len(vectors), np.int64), np.full(len(vectors), -np.inf)
        places = self._places[: self._num_kept]
        scores = vectors @ self._kept[: self._num_kept].T
        scores[marks[:, None] != self._marks[places][None]] = -np.inf
        best = np.argmax(scores, axis=1)
        return places[best], scores[np.arange(len(vectors)), best]
