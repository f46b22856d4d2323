"""Texts of one length side by side, and windows, on the device: cases T05 and T06."""

from pathlib import Path

import pytest
import torch

from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.test_neighbours import (
    CAUSAL,
    WINDOW_TEXTS,
    change_by_a_neighbour_of_one_length,
    change_by_the_last_word,
    farthest,
    load_on,
    vectors,
    windowed_reference,
)
from tests.tiny import change_json

CUDA = torch.device("cuda")


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-3)], ids=["full", "half"]
)
@pytest.mark.parametrize("row", CAUSAL.values(), ids=CAUSAL)
def test_a_neighbour_of_the_same_length_changes_nothing(
    row: Row, dtype: torch.dtype, limit: float, tmp_path: Path
) -> None:
    """Case T05; that a later word changes no earlier token proves that the mask is on."""
    save(row, "dense", tmp_path)
    adapter = load_on(tmp_path, CUDA, dtype)
    assert change_by_a_neighbour_of_one_length(adapter, CUDA) <= limit
    before, after = change_by_the_last_word(adapter, CUDA)
    assert before <= limit
    assert after > 1e-2


def test_a_window_that_is_read_as_the_reference_reads_it(tmp_path: Path) -> None:
    """Case T06; without the window the numbers are others."""
    expected = windowed_reference(tmp_path)
    found = vectors(load_on(tmp_path, CUDA, torch.bfloat16), WINDOW_TEXTS, CUDA)
    assert min(float(a @ b) for a, b in zip(found, expected, strict=True)) >= 0.9999
    assert farthest(found, expected) <= 5e-3
    change_json(tmp_path, "config.json", local_attention=512)
    found = vectors(load_on(tmp_path, CUDA, torch.bfloat16), WINDOW_TEXTS, CUDA)
    assert farthest(found, expected) > 1e-2
