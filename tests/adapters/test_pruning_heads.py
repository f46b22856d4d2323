"""A pruning head's files: where it is found, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sie_mcp.errors import ModelLoadFailed
from tests.parity.pruners import BY_NAME, entry, make_head, request, save, save_pruner, state_of
from tests.parity.run import load, run


@pytest.mark.parametrize("wrapper", ["", "state_dict", "model_state_dict", "pruning_head"])
@pytest.mark.parametrize("prefix", ["classifier.", "pruning_head.classifier."])
def test_a_head_is_found_in_what_a_training_loop_saves(
    tmp_path: Path, wrapper: str, prefix: str
) -> None:
    save_pruner(tmp_path)
    expected = run(load(tmp_path), request())[1]
    (tmp_path / "pruning_head.pt").unlink()
    tensors = state_of(make_head(), prefix)
    torch.save({"epoch": 7, wrapper: tensors} if wrapper else tensors, tmp_path / "best.pt")
    found = run(load(tmp_path, entry(tmp_path)), request())[1]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one["keep"], other["keep"])


def test_a_head_in_safetensors_is_read(tmp_path: Path) -> None:
    save_pruner(tmp_path)
    (tmp_path / "pruning_head.pt").unlink()
    save_file(state_of(make_head()), tmp_path / "pruning_head.safetensors")
    adapter = load(tmp_path)
    assert adapter.card.primitives == ["score", "extract"]
    assert "pruning_head.safetensors" in adapter.card.decisions["tasks"]


def test_a_frozen_encoder_beside_the_head_is_told(tmp_path: Path) -> None:
    save_pruner(tmp_path)
    tensors = state_of(make_head(), "pruning_head.classifier.") | {"encoder.x": torch.zeros(1)}
    torch.save({"model_state_dict": tensors}, tmp_path / "pruning_head.pt")
    left_out = load(tmp_path).card.decisions["left_out"]
    assert left_out == "1 tensors beside the pruning head (pruning_head.pt)"


class Opens:
    """An object whose unpickling would touch a file."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> Any:
        return (open, (str(self._marker), "w"))


def test_a_head_is_never_unpickled_freely(tmp_path: Path) -> None:
    save_pruner(tmp_path)
    head = state_of(make_head()) | {"more": Opens(tmp_path / "ran")}
    torch.save(head, tmp_path / "pruning_head.pt")
    with pytest.raises(ModelLoadFailed, match=r"pruning_head\.pt is a pickle with more"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()


def _without_bias() -> dict[str, torch.Tensor]:
    return {name: one for name, one in state_of(make_head()).items() if name != "classifier.3.bias"}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (_without_bias(), r"a pruning head has classifier\.0\.bias"),
        (state_of(make_head()) | {"norm.weight": torch.zeros(3)}, r"holds .*norm\.weight"),
        (
            state_of(make_head()) | {"classifier.0.weight": torch.zeros(24, 16)},
            r"classifier\.0\.weight reads 16 numbers, what is before it is 32 wide",
        ),
        (
            state_of(make_head())
            | {"classifier.3.weight": torch.zeros(3, 24), "classifier.3.bias": torch.zeros(3)},
            "a pruning head of 3 outputs is not supported; supported: 1",
        ),
        (state_of(make_head()) | {"classifier.0.bias": torch.zeros(9)}, "has shape"),
        (state_of(make_head()) | {"classifier.0.weight": torch.zeros(9)}, "is no matrix"),
    ],
)
def test_a_head_that_does_not_fit_is_named(
    tmp_path: Path, tensors: dict[str, torch.Tensor], message: str
) -> None:
    save_pruner(tmp_path)
    torch.save(tensors, tmp_path / "pruning_head.pt")
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_a_head_that_is_not_there_is_named(tmp_path: Path) -> None:
    save(BY_NAME["xlm-roberta"], "cross_encoder", tmp_path)
    with pytest.raises(ModelLoadFailed, match=r"no pruning head; expected best\.pt or pruning_h"):
        load(tmp_path, entry(tmp_path))


@pytest.mark.parametrize(
    ("row", "task", "message"),
    [
        ("xlm-roberta", "classification", "a cross-encoder of one label; config.json has LABEL_0"),
        ("albert", "cross_encoder", "pruning is not served on 'albert'"),
    ],
)
def test_a_head_on_what_cannot_carry_it_is_refused(
    tmp_path: Path, row: str, task: str, message: str
) -> None:
    save(BY_NAME[row], task, tmp_path)
    torch.save(state_of(make_head()), tmp_path / "pruning_head.pt")
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)
