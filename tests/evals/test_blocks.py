"""Quantised numbers by hand."""

import numpy as np

from evals.families.blocks import from_q4_0, from_scaled, interleaved_to_halves


def test_a_block_of_q4_0_has_its_low_halves_first_and_counts_from_minus_eight() -> None:
    scale = np.array([0.5], "<f2").view(np.uint8)
    low = np.arange(16, dtype=np.uint8)
    packed = np.concatenate([scale, low | low[::-1] << 4])
    expected = [(code - 8) * 0.5 for code in (*range(16), *range(15, -1, -1))]
    assert from_q4_0(packed, 1, 32).tolist() == [expected]


def test_blocks_of_q4_0_fill_rows_one_after_the_other() -> None:
    scales = np.array([1.0, 2.0, 4.0, 8.0], "<f2").view(np.uint8).reshape(4, 2)
    codes = np.full((4, 16), 0x99, np.uint8)
    found = from_q4_0(np.concatenate([scales, codes], axis=1).ravel(), 2, 64)
    assert found[:, ::32].tolist() == [[1.0, 2.0], [4.0, 8.0]]
    assert found.shape == (2, 64)


def test_a_scaled_table_counts_from_its_zero_point() -> None:
    stored = np.array([0, 128, 255], np.uint8)
    found = from_scaled(stored, np.array(0.5, np.float32), np.array(128, np.uint8))
    assert found.tolist() == [-64.0, 0.0, 63.5]


def test_rows_in_pairs_become_rows_in_halves_within_each_head() -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]
    found = interleaved_to_halves(rows, num_heads=2)
    assert found.ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
