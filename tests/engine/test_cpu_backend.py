"""The setting that says whose kernels compute on a CPU."""

import pytest
import torch

from sie_mcp.adapters.cpu_backend import CpuBackend
from sie_mcp.doctor.probe import probe
from sie_mcp.engine import hardware
from sie_mcp.engine.hardware import choose_cpu_backend, device_label
from sie_mcp.errors import SettingError

CPU = torch.device("cpu")
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
