"""What a container may use of its machine: memory and processors, from the kernel's files.

Both versions of control groups. The limit that holds is the tightest between the process's own
group and the root. Knows files; knows no torch.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Version 1 has a folder of its own for each controller.
_CPU_V1 = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The groups that the process is in.

    Attributes:
        root: Where the kernel's files are mounted.
        membership: Says which groups the process is in (/proc/self/cgroup).
    """

    root: Path = Path("/sys/fs/cgroup")
    membership: Path = Path("/proc/self/cgroup")

    def free_bytes(self) -> int | None:
        """Return what is left under the tightest memory limit; None without a limit.

        Pages of files that were not touched lately do not count: the kernel takes them back first.
        """
        found = [
            _free(folder, "memory.max", "memory.current", "inactive_file")
            for folder in self._folders("", self.root)
        ]
        found += [
            _free(
                folder,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
            for folder in self._folders("memory", self.root / "memory")
        ]
        return min((one for one in found if one is not None), default=None)

    def cpus(self) -> float | None:
        """Return how many processors' time the tightest quota gives; None without a quota."""
        found = [_quota_v2(folder) for folder in self._folders("", self.root)]
        found += [
            _quota_v1(folder)
            for name in _CPU_V1
            for folder in self._folders("cpu", self.root / name)
        ]
        return min((one for one in found if one is not None), default=None)

    def _folders(self, controller: str, mount: Path) -> Iterator[Path]:
        """Yield the process's group and all above it; version 2 has the controller ""."""
        path = self._paths().get(controller, "/").strip("/")
        folder = mount / path
        # A path of the host's, seen from within a container, leads nowhere: its root is our group.
        while path and ".." not in folder.parts and folder != mount:
            yield folder
            folder = folder.parent
        yield mount

    def _paths(self) -> dict[str, str]:
        paths: dict[str, str] = {}
        for line in (_text(self.membership) or "").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            paths.update(dict.fromkeys(controllers.split(","), path))
        return paths


def usable_cpus(cgroup: Cgroup) -> int:
    """Return how many threads can compute at once: processors allowed, within the quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = cgroup.cpus()
    # More threads than the quota has time for only stop each other.
    return max(1, min(allowed or 1, int(quota) if quota is not None else allowed or 1))


def _free(folder: Path, limit_file: str, usage_file: str, reclaimable: str) -> int | None:
    limit, usage = _number(folder / limit_file), _number(folder / usage_file)
    if limit is None or usage is None:
        return None
    fields = dict(
        line.split() for line in (_text(folder / "memory.stat") or "").splitlines() if line
    )
    return max(limit - usage + min(int(fields.get(reclaimable, 0)), usage), 0)


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = (_text(folder / "cpu.max") or "max").partition(" ")
    return int(quota) / int(period or 100_000) if quota.isdigit() else None


def _quota_v1(folder: Path) -> float | None:
    # No quota is -1 here.
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period else None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdigit() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
