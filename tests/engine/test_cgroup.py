"""Limits of a container, from files as both versions of control groups write them."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from sie_mcp.engine.cgroup import Cgroup, usable_cpus
from sie_mcp.engine.hardware import budget_bytes, free_bytes

GIB = 1024**3
STAT = "anon 5\ninactive_file 1000\ntotal_inactive_file 1000\n"


def group(tmp_path: Path, membership: str, files: dict[str, str]) -> Cgroup:
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "membership").write_text(membership)
    return Cgroup(tmp_path / "fs", tmp_path / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "free", "cpus"),
    [
        # No limit at all, no files at all.
        ("0::/", {}, None, None),
        ("0::/", {"memory.max": "max", "memory.current": "7", "cpu.max": "max 100000"}, None, None),
        # A container with a namespace of its own: the root is its group.
        (
            "0::/",
            {"memory.max": "5000", "memory.current": "2000", "cpu.max": "200000 100000"},
            3000,
            2.0,
        ),
        # Pages of files are taken back when memory is needed.
        ("0::/", {"memory.max": "5000", "memory.current": "2000", "memory.stat": STAT}, 4000, None),
        # Nested: a slice above is tighter in memory, the group itself in processors.
        (
            "0::/a.slice/b.scope",
            {
                "a.slice/b.scope/memory.max": "max",
                "a.slice/b.scope/cpu.max": "150000 100000",
                "a.slice/memory.max": "900",
                "a.slice/memory.current": "1000",
                "a.slice/cpu.max": "400000 100000",
            },
            0,
            1.5,
        ),
        # A path of the host's that does not exist in the container.
        ("0::/docker/abc", {"memory.max": "10", "memory.current": "4"}, 6, None),
        # A path outside what is mounted.
        ("0::/../other", {"memory.max": "10", "memory.current": "4"}, 6, None),
        # Version 1, with its number for no limit, and nested.
        (
            "9:memory:/pod/one\n4:cpu,cpuacct:/pod/one\n1:name=systemd:/x",
            {
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/memory.usage_in_bytes": "9223372036854771000",
                "memory/pod/one/memory.limit_in_bytes": "2000",
                "memory/pod/one/memory.usage_in_bytes": "1500",
                "memory/pod/one/memory.stat": STAT,
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/pod/one/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/pod/one/cpu.cfs_period_us": "100000",
            },
            712,
            0.5,
        ),
    ],
)
def test_the_tightest_limit_between_the_group_and_the_root_holds(
    tmp_path, membership, files, free, cpus
):
    cgroup = group(tmp_path, membership, files)
    assert cgroup.free_bytes() == free
    assert cgroup.cpus() == cpus


def test_a_budget_is_a_part_of_what_the_container_leaves(tmp_path):
    """Case T35: a limit of 2 GB on a large host."""
    files = {"memory.max": str(2 * GIB), "memory.current": str(GIB)}
    cgroup = group(tmp_path, "0::/", files)
    cpu = torch.device("cpu")
    assert free_bytes(cpu, cgroup) == min(GIB, psutil.virtual_memory().available)
    assert budget_bytes("0.5", cpu, cgroup=cgroup) <= GIB // 2
    assert budget_bytes("3GiB", cpu, cgroup=cgroup) == 3 * GIB


@pytest.mark.parametrize(("quota", "most"), [("200000", 2), ("150000", 1), ("20000", 1)])
def test_threads_are_no_more_than_the_quota_has_time_for(tmp_path, quota, most):
    """Case T35: 2 CPUs on a host with many."""
    cgroup = group(tmp_path, "0::/", {"cpu.max": f"{quota} 100000"})
    assert 1 <= usable_cpus(cgroup) <= most


def test_every_pool_has_the_size_that_the_quota_gives(tmp_path):
    """Case T35, in a process of its own: pools keep the size they start with."""
    group(tmp_path, "0::/", {"cpu.max": "100000 100000"})
    program = f"""
import os
from pathlib import Path
import torch
from sie_mcp.engine.cgroup import Cgroup
from sie_mcp.engine.hardware import size_thread_pools
root = Path({str(tmp_path)!r})
assert size_thread_pools(None, Cgroup(root / "fs", root / "membership")) == 1
assert torch.get_num_threads() == 1 and os.environ["RAYON_NUM_THREADS"] == "1"
torch.ones(2000, 2000) @ torch.ones(2000, 2000)
"""
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, env=environment)
