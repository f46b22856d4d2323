"""What the doctor finds of the machine: its Python, torch, devices and memory."""

import json
import sys

import pytest

from sie_mcp.config import Config
from sie_mcp.doctor import machine
from sie_mcp.doctor.findings import Finding
from sie_mcp.doctor.probe import probe
from tests.doctor.verdicts import GPU, SEEN, verdicts


def engine_of(config: Config, seen: dict[str, object]) -> list[Finding]:
    return machine.engine(config, (sys.executable, "-c", f"print({json.dumps(seen)!r})"))


def test_this_machines_torch_is_looked_at_in_another_process(config):
    before = set(sys.modules)
    found = machine.engine(config)
    assert verdicts(found)["torch"] in ("ok", "warn")
    assert set(sys.modules) == before


def test_the_probe_says_what_a_setting_asks_for_in_vain():
    assert probe("cpu", "auto", "0.5")["devices"][0]["dtype"] == "float32"
    assert len(probe("cpu,cpu", "auto", "0.5")["devices"]) == 1
    assert not probe("cpu", "bfloat16", "0.5")["devices"][0]["gains_from_bfloat16"]
    assert "unknown" in probe("toaster", "auto", "0.5")["refused"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"torch": "ok", "device": "ok", "flash-attn": "warn", "memory": "ok"}),
        ({"flash_attn": {"version": "2.8"}}, {"flash-attn": "ok"}),
        ({"flash_attn": {"error": "ImportError: undefined symbol"}}, {"flash-attn": "fail"}),
        ({"devices": [GPU | {"name": "cpu"}], "gpus": []}, {"flash-attn": "ok"}),
        ({"devices": [GPU | {"budget_bytes": 10_000_000}]}, {"memory": "warn"}),
        ({"devices": [GPU | {"budget_bytes": 90_000_000_000}]}, {"memory": "warn"}),
    ],
)
def test_a_gpu_machine_is_judged(config, change, expected):
    found = verdicts(engine_of(config, SEEN | change))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("gains", [False, True])
def test_a_faster_dtype_is_spoken_of(config, gains):
    cpu = GPU | {"name": "cpu", "dtype": "float32", "gains_from_bfloat16": gains}
    found = {one.name: one.text for one in engine_of(config, SEEN | {"devices": [cpu], "gpus": []})}
    assert ("SIE_MCP_DTYPE=bfloat16 is faster" in found["device"]) == gains


def test_a_device_that_is_not_there_fails(config):
    seen = {key: SEEN[key] for key in ("torch", "cuda", "gpus", "has_mps", "flash_attn")}
    found = engine_of(config, seen | {"refused": "device 'cuda': this machine has none"})
    assert verdicts(found) == {"torch": "ok", "device": "fail"}


def test_a_gpu_that_torch_does_not_see_is_remarked_on(config, monkeypatch, tmp_path):
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = engine_of(config, SEEN | {"gpus": [], "cuda": None, "devices": []})
    assert verdicts(found)["torch"] == "warn"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise ModuleNotFoundError('No module named torch')", "engine is not installed"),
        ("raise OSError('libcudart.so')", "libcudart.so"),
        ("raise SystemExit(3)", "without a word"),
    ],
)
def test_an_engine_that_does_not_start_fails(config, program, reason):
    (found,) = machine.engine(config, (sys.executable, "-c", program))
    assert found.verdict == "fail"
    assert reason in found.text
    assert "sie-mcp[engine]" in found.fix


def test_a_torch_that_hangs_does_not_hold_up_the_doctor(config, monkeypatch):
    monkeypatch.setattr(machine, "PROBE_LIMIT_S", 0.2)
    (found,) = machine.engine(config, (sys.executable, "-c", "import time; time.sleep(60)"))
    assert found.verdict == "fail"
    assert "more than 0.2 s" in found.text


def test_python_is_named():
    (found,) = machine.python()
    assert sys.executable in found.text
