"""The nearest vectors are those of a full sort, ties by index, however many there are."""

import numpy as np
import pytest

from sie_mcp.tools.similarity import best, top_matches, top_pairs


@pytest.mark.parametrize("num_values", [1, 7, 130, 1_000, 5_000])
@pytest.mark.parametrize("num_different", [1, 3, 40, 10**9])
def test_the_best_are_the_first_of_a_stable_sort(num_values, num_different):
    rng = np.random.default_rng(num_values)
    values = rng.integers(-num_different, num_different + 1, num_values).astype(np.float32)
    expected = np.argsort(-values, kind="stable")
    for k in (0, 1, 2, 10, num_values):
        if k <= num_values:
            assert best(values, k).tolist() == expected[:k].tolist()
    values = np.sort(values)[::-1].copy()
    assert best(values, 1).tolist() == [0]


def test_matches_and_pairs_are_those_of_all_products():
    rng = np.random.default_rng(0)
    vectors = rng.integers(-2, 3, (300, 4)).astype(np.float32)
    queries = vectors[:20] + 1
    indices, scores = top_matches(queries, vectors, 3)
    products = queries @ vectors.T
    assert indices.tolist() == np.argsort(-products, axis=1, kind="stable")[:, :3].tolist()
    assert scores.tolist() == np.take_along_axis(products, indices, 1).tolist()
    pairs = [(i, j, float(vectors[i] @ vectors[j])) for i in range(300) for j in range(i + 1, 300)]
    assert top_pairs(vectors, 5) == sorted(pairs, key=lambda one: (-one[2], one[0], one[1]))[:5]
