"""Budgets: what settings say meets what the machine has."""

import pytest
import torch

from sie_mcp.config import Config
from sie_mcp.engine import hardware
from sie_mcp.engine.cgroup import Cgroup
from sie_mcp.engine.hardware import (
    budget_bytes,
    host_budget_bytes,
    max_batch_tokens,
    trim_caches,
)
from sie_mcp.errors import SettingError

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A host with 8 GiB available, in a container that has 3 GiB left."""
    memory = type("Memory", (), {"available": 8 * 1024**3})
    monkeypatch.setattr(hardware.psutil, "virtual_memory", memory)
    for name, size in (("memory.max", 4), ("memory.current", 1)):
        (tmp_path / name).write_text(f"{size * 1024**3}\n")
    (tmp_path / "membership").write_text("0::/")
    monkeypatch.setattr(hardware, "Cgroup", lambda: Cgroup(tmp_path, tmp_path / "membership"))


@pytest.mark.parametrize(
    ("setting", "device", "expected"),
    [
        ("auto", CUDA, 3 * 1024**3 // 2),
        ("auto", CPU, 0),
        ("auto", torch.device("mps"), 0),
        ("0.25", CPU, 3 * 1024**3 // 4),
        ("6GiB", CUDA, 6 * 1024**3),
        ("0", CUDA, 0),
        ("300m", CPU, 300 * 1024**2),
    ],
)
def test_host_memory_has_a_budget_of_its_own(setting, device, expected):
    assert host_budget_bytes(setting, device) == expected
    assert Config.model_fields["host_memory_budget"].default == "auto"


def test_a_wrong_budget_is_named():
    with pytest.raises(SettingError, match=r"host_memory_budget 'half': use a fraction such as"):
        host_budget_bytes("half", CUDA)
    with pytest.raises(SettingError, match=r"^memory_budget 'auto'"):
        budget_bytes("auto", CPU)


@pytest.mark.parametrize(("allowed", "emptied"), [(29, 1), (30, 0)])
def test_caches_are_emptied_only_when_they_keep_too_much(monkeypatch, allowed, emptied):
    calls = []
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 100)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 70)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(1))
    trim_caches(CUDA, allowed)
    trim_caches(CPU, 0)
    assert len(calls) == emptied


@pytest.mark.parametrize(
    ("setting", "device", "expected"),
    [(None, "cpu", 4_096), (None, "cuda", 16_384), (None, "mps", 16_384), (77, "cpu", 77)],
)
def test_a_forward_pass_has_the_tokens_that_suit_its_device(setting, device, expected):
    assert max_batch_tokens(setting, torch.device(device)) == expected
