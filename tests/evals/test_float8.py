"""The figures of eight-bit floats, on a tiny model and a few texts."""

from pathlib import Path

import pytest
import torch

from evals import float8
from tests.parity.checkpoints import save
from tests.parity.table import ROWS


def test_a_halved_checkpoint_is_compared_in_three_dtypes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.adapters.float8.MIN_NUMBERS", 1)
    source, half = tmp_path / "source", tmp_path / "half"
    save(next(row for row in ROWS if row.name == "bert"), "dense", source)
    float8.halve(source, half)
    files = [folder / "model.safetensors" for folder in (source, half)]
    assert files[1].stat().st_size < 0.7 * files[0].stat().st_size
    full, _, small = float8.measure(half, torch.device("cpu"), 4)
    assert full["mean_cosine"] == 1.0
    assert (full["layers_in_fp8"], small["layers_in_fp8"]) == (0, 12)
    assert 0.9 < small["mean_cosine"] < 1.0
    assert small["bytes"] < full["bytes"] / 2
