"""The setting that says whose kernels compute on a CPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.cpu_backend import CpuBackend, refusal
from sie_mcp.doctor.probe import probe
from sie_mcp.engine import hardware
from sie_mcp.engine.hardware import choose_cpu_backend, device_label
from sie_mcp.errors import SettingError
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

CPU = torch.device("cpu")
BY_NAME = {row.name: row for row in ROWS}
BACKENDS: tuple[CpuBackend, ...] = ("torch", "openvino")


def test_torch_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "has_openvino", lambda: False)
    assert choose_cpu_backend("torch") == "torch"


def test_openvino_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "has_openvino", lambda: False)
    with pytest.raises(
        SettingError, match=r"not installed; run `pip install 'sie-mcp\[openvino\]'"
    ):
        choose_cpu_backend("openvino")
    assert "not installed" in probe("cpu", "auto", "0.5", "openvino")["refused"]
    monkeypatch.setattr(hardware, "has_openvino", lambda: True)
    assert choose_cpu_backend("openvino") == "openvino"


def test_speeds_of_one_are_not_the_others() -> None:
    torchs = device_label(CPU, "bfloat16", ())
    assert device_label(CPU, "bfloat16", (), "openvino") == f"{torchs}, openvino"
    elsewhere = [device_label(torch.device("mps"), "auto", (), one) for one in BACKENDS]
    assert elsewhere[0] == elsewhere[1]


def test_what_openvino_has_not_is_said_before_anything_is_read(tmp_path: Path) -> None:
    save(BY_NAME["bert"], "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    assert refusal(recipe, CPU, torch.bfloat16) is None
    assert refusal(recipe, torch.device("mps"), torch.float32) == "it is on mps"
    assert refusal(recipe, CPU, torch.float16) == "it has no torch.float16"
    adapted = replace(recipe, loras={"a": "a"})
    assert refusal(adapted, CPU, torch.float32) == "it adds no low-rank adapters"
    part = replace(recipe, glirel=cast(Any, "settings"))
    assert refusal(part, CPU, torch.float32) == "its encoder is part of a larger one"
    other = replace(recipe, config={**recipe.config, "hidden_act": "silu"})
    assert refusal(other, CPU, torch.float32) == "it has no activation 'silu'"
    save(BY_NAME["mpnet"], "dense", tmp_path)
    mpnet = create.read_recipe("m", tmp_path, None)
    assert "it has no mpnet, only bert" in (refusal(mpnet, CPU, torch.float32) or "")
