"""What outgrows float16 on the device, where a kernel reads sequences side by side."""

from pathlib import Path

import pytest
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.widened import widened
from tests.engine.test_retry_wide import (
    check_float32_answers,
    check_that_one_item_fails,
    in_an_early_and_the_last_layer,
)
from tests.gpu.known import is_known
from tests.parity.checkpoints import save
from tests.parity.row import Row
from tests.parity.run import load
from tests.parity.test_parity import worst
from tests.parity.test_widened import HALVED, half, outputs_of, round_weights

CUDA = torch.device("cuda", 0)


@in_an_early_and_the_last_layer
def test_what_outgrows_float16_is_answered_in_float32(tmp_path: Path, layer: int) -> None:
    check_float32_answers(tmp_path, CUDA, layer)


@in_an_early_and_the_last_layer
def test_without_a_second_try_one_item_fails_and_no_other(tmp_path: Path, layer: int) -> None:
    check_that_one_item_fails(tmp_path, CUDA, layer)


@pytest.mark.parametrize("row", list(filter(is_known, HALVED)), ids=lambda row: row.name)
def test_widened_half_precision_on_the_device_is_float32(row: Row, tmp_path: Path) -> None:
    save(row, "dense", tmp_path)
    round_weights(tmp_path, half(row))
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(recipe, device=CUDA, dtype=half(row))
    with widened():
        found = outputs_of(adapter, "dense", CUDA)
    assert worst(found, outputs_of(load(tmp_path), "dense")) < 1e-3
