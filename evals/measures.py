"""Measures of retrieval and classification quality, on plain numbers."""

from collections.abc import Sequence

import numpy as np


def ndcg(run: Sequence[str], relevant: set[str], k: int = 10) -> float:
    """Normalised discounted cumulative gain at k with binary gains."""
    gains = [1.0 if document in relevant else 0.0 for document in run[:k]]
    ideal = sum(1.0 / np.log2(rank + 2) for rank in range(min(k, len(relevant))))
    return float(sum(g / np.log2(rank + 2) for rank, g in enumerate(gains)) / ideal)


def recall(run: Sequence[str], relevant: set[str], k: int) -> float:
    """Share of the relevant documents among the first k."""
    return len(set(run[:k]) & relevant) / len(relevant)


def rankings(scores: np.ndarray, document_ids: Sequence[str], k: int) -> list[list[str]]:
    """Turn scores `(num_queries, num_documents)` into the k best document ids of each query."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [[document_ids[index] for index in row] for row in order]


def hierarchical_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """F1 over the ancestors of two category paths, both given from the top down."""
    shared = 0
    while shared < min(len(predicted), len(gold)) and predicted[shared] == gold[shared]:
        shared += 1
    return 2 * shared / (len(predicted) + len(gold))
