"""Half precision computed with in float32 against float32 with the same weights: every family."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sie_mcp.adapters import create
from sie_mcp.adapters.packing import pack, unpack
from sie_mcp.adapters.widened import widened
from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.run import CPU, load
from tests.parity.table import ROWS
from tests.parity.test_parity import TEXTS, request_for, worst

TOLERANCE = 1e-5
# Refused in float16: these are widened from bfloat16.
OVERFLOWING = ("t5", "gemma2", "gemma3_text")
# Fourier transforms have no half precision: this one loads in float32 alone.
HALVED = [row for row in ROWS if row.name != "fnet"]
# Heads of ours, and one of transformers that reads other modules' weights.
ALL_TASKS = ("bert", "modernbert", "mobilebert")
PAIRS = [
    (row, task)
    for row in HALVED
    for task in row.classes
    if task == "dense" or row.name in ALL_TASKS
]


def half(row: Row) -> torch.dtype:
    return torch.bfloat16 if row.name.startswith(OVERFLOWING) else torch.float16


def round_weights(folder: Path, dtype: torch.dtype) -> None:
    """Make a checkpoint's float32 weights such that half precision holds them exactly."""
    path = folder / "model.safetensors"
    rounded = {
        name: one.to(dtype).to(one.dtype) if one.is_floating_point() else one
        for name, one in load_file(path).items()
    }
    save_file(rounded, path, metadata={"format": "pt"})


def outputs_of(adapter: Any, task: str, device: torch.device = CPU) -> list[np.ndarray]:
    """Return the floating-point outputs, an array a text and output."""
    offered = [one for one in ("dense", "multivector") if one in adapter.card.outputs]
    sequences = adapter.prepare(request_for(task, TEXTS, offered)).sequences
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, device)), len(sequences))
    return [values for one in outputs for values in one.values() if values.dtype.kind == "f"]


@pytest.mark.parametrize(("row", "task"), PAIRS, ids=[f"{r.name}-{t}" for r, t in PAIRS])
def test_widened_half_precision_is_float32(row: Row, task: str, tmp_path: Path) -> None:
    dtype = half(row)
    save(row, task, tmp_path)
    round_weights(tmp_path, dtype)
    expected = outputs_of(load(tmp_path), task)
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(recipe, device=CPU, dtype=dtype)
    narrow = outputs_of(adapter, task)
    with widened():
        found = outputs_of(adapter, task)
    assert worst(found, expected) <= TOLERANCE
    # The comparison can fail, and nothing has changed afterwards.
    if task != "sparse":  # Weights near zero may be there or not.
        assert worst(narrow, expected) > TOLERANCE
    assert worst(outputs_of(adapter, task), narrow) == 0.0
