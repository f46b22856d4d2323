"""Half precision on a CPU is served where it agrees with float32, and float32 where it does not."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sie_mcp.adapters import checked, create
from sie_mcp.adapters.checked import disagreement, load_checked
from tests.parity.checkpoints import save
from tests.parity.run import CPU
from tests.parity.table import ROWS

BERT = next(row for row in ROWS if row.name == "bert")


def test_a_model_that_agrees_is_served_in_the_dtype_that_was_asked_for(tmp_path: Path) -> None:
    save(BERT, "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    half = load_checked(recipe, device=CPU, dtype=torch.bfloat16)
    full = load_checked(recipe, device=CPU, dtype=torch.float32)
    assert half.weights is not None
    assert full.weights is not None
    assert half.weights.size_bytes < full.weights.size_bytes


def test_a_model_that_does_not_agree_is_served_in_float32_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checked, "MIN_COSINE", 1.1)
    save(BERT, "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    served = load_checked(recipe, device=CPU, dtype=torch.bfloat16)
    full = load_checked(recipe, device=CPU, dtype=torch.float32)
    assert served.weights is not None
    assert full.weights is not None
    assert served.weights.size_bytes == full.weights.size_bytes
    assert "float32 instead of torch.bfloat16 model=m reason=dense: cosine" in caplog.text


@pytest.mark.parametrize(
    ("other", "reason"),
    [(0.0, None), (0.01, None), (0.2, "score: differs by 0.2"), (np.nan, "score: differs by nan")],
)
def test_narrow_outputs_are_held_by_their_difference(other: float, reason: str | None) -> None:
    expected = [{"score": np.array([[1.0]])}]
    assert disagreement(expected, [{"score": np.array([[1.0 + other]])}]) == reason


def test_wide_outputs_are_held_by_their_direction() -> None:
    expected = [{"dense": np.ones((1, 8))}]
    turned = np.ones((1, 8))
    turned[0, 0] = 0.5
    assert disagreement(expected, [{"dense": 2 * np.ones((1, 8))}]) is None
    assert "cosine" in (disagreement(expected, [{"dense": turned}]) or "")
    assert "cosine" in (disagreement(expected, [{"dense": np.full((1, 8), np.nan)}]) or "")
    assert "cosine" in (disagreement(expected, [{"dense": np.zeros((1, 8))}]) or "")
    assert disagreement([{"dense": np.zeros((1, 8))}], [{"dense": np.zeros((1, 8))}]) is None
