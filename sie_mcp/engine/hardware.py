"""Which device to run on, in which dtype, with how much memory: settings meet the machine."""

import re
from pathlib import Path

import psutil
import torch

from sie_mcp.errors import SettingError

_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"([\d.]+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
# Container limits: version 2 of cgroups, then version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_USAGES = (
    Path("/sys/fs/cgroup/memory.current"),
    Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def choose_device(name: str) -> torch.device:
    """Return the device of a setting; "auto" prefers CUDA, then Apple's GPU.

    Raises:
        SettingError: unknown, or not on this machine.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", 0)
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(f"device {name!r} is unknown; use auto, cpu, cuda:N or mps") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(f"device {name!r}: this machine has no CUDA device; use auto or cpu")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", 0)
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of a setting; "auto" is bfloat16 on CUDA, else float32."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _DTYPES[name]


def budget_bytes(setting: str, device: torch.device, name: str = "memory_budget") -> int:
    """Return the bytes that models may take: a fraction of what is free now, or a size.

    Raises:
        SettingError: neither a fraction up to 1 nor a size such as 6GiB.
    """
    match = _SIZE.fullmatch(setting.strip())
    if match is None:
        raise SettingError(f"{name} {setting!r}: use a fraction such as 0.8 or a size (6GiB)")
    number, unit = float(match[1]), match[2].lower()
    if not unit and match[3] is None and number <= 1.0:
        return int(free_bytes(device) * number)
    return int(number * _UNITS[unit])


def host_budget_bytes(setting: str, device: torch.device) -> int:
    """Return the bytes of host memory for models that are off the device.

    "auto" is half of what is free for CUDA. Elsewhere there is no second memory: weights on a CPU
    lie in the host's own, and so do those of Apple's GPU.

    Raises:
        SettingError: neither auto, nor a fraction up to 1, nor a size such as 6GiB.
    """
    if setting == "auto":
        setting = "0.5" if device.type == "cuda" else "0"
    return budget_bytes(setting, torch.device("cpu"), "host_memory_budget")


def max_forward_s(setting: float | None, device: torch.device) -> float:
    """Return how long a forward pass may take; a full batch of a large model on a CPU is slow."""
    if setting is not None:
        return setting
    return 120.0 if device.type == "cuda" else 1800.0


def free_bytes(device: torch.device) -> int:
    """Return what is free on the device now; on the CPU within the container's limit."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = int(psutil.virtual_memory().available)
    limit, usage = _first_number(_LIMITS), _first_number(_USAGES)
    if limit is None:
        return available
    return min(available, limit - (usage or 0))


def empty_caches(device: torch.device) -> None:
    """Give memory that torch keeps for itself back to the device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def trim_caches(device: torch.device, limit_bytes: int) -> None:
    """Give memory that torch keeps for itself back if it is more than that."""
    unused_bytes = 0
    if device.type == "cuda":
        unused_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    elif device.type == "mps":
        unused_bytes = torch.mps.driver_allocated_memory() - torch.mps.current_allocated_memory()
    if unused_bytes > limit_bytes:
        empty_caches(device)


def _first_number(paths: tuple[Path, ...]) -> int | None:
    for path in paths:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return None
