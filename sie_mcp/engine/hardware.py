"""Which device to run on, in which dtype, with how much memory: settings meet the machine."""

import gc
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from sie_mcp.adapters.cpu_backend import CpuBackend, has_openvino
from sie_mcp.adapters.float8 import has_float8
from sie_mcp.adapters.layers.cpu.int8_linear import has_int8
from sie_mcp.adapters.layers.cpu.packed_linear import has_fast_bfloat16
from sie_mcp.adapters.layers.float8_linear import FLOAT8
from sie_mcp.engine.cgroup import Cgroup, usable_cpus
from sie_mcp.errors import SettingError

# How long a thread may keep the interpreter while another one waits for it.
SWITCH_S = 50e-6
# Objects made until the youngest are looked at, and how often older ones are among them.
GC_THRESHOLDS = (50_000, 20, 20)
_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
    "fp8": FLOAT8,
}
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"([\d.]+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)


def choose_devices(setting: str) -> tuple[torch.device, ...]:
    """Return the devices of a setting, each of which gets models of its own.

    "auto" is every CUDA device, else Apple's GPU, else the CPU; "cuda" every CUDA device; several
    are named with commas. One named twice is used as two.

    Raises:
        SettingError: unknown, or not on this machine.
    """
    names = [part.strip() for part in setting.split(",")]
    return tuple(device for name in names for device in _devices(name))


def lane_name(devices: Sequence[torch.device], number: int) -> str:
    """Return what a device is called; of one that is used as several, each use has a number."""
    device = devices[number]
    if list(devices).count(device) == 1:
        return str(device)
    return f"{device}#{list(devices[:number]).count(device)}"


def _devices(name: str) -> list[torch.device]:
    if name == "auto":
        if torch.cuda.is_available():
            return _devices("cuda")
        return [torch.device("mps" if torch.backends.mps.is_available() else "cpu")]
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(
            f"device {name!r} is unknown; use auto, cpu, cuda, cuda:N, mps, or several with commas"
        ) from error
    if device.type != "cuda":
        return [device]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise SettingError(f"device {name!r}: this machine has no CUDA device; use auto or cpu")
    if device.index is None:
        return [torch.device("cuda", number) for number in range(count)]
    if device.index >= count:
        raise SettingError(f"device {name!r}: this machine has {count} CUDA devices, from cuda:0")
    return [device]


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of a setting; "auto" is bfloat16 on CUDA, else float32.

    Raises:
        SettingError: int8 or fp8 where there are no products for it.
    """
    if name == "fp8" and not has_float8(device):
        raise SettingError(
            f"dtype 'fp8' on {device}: it needs a CUDA device of compute capability 8.9 or more "
            "(Ada, Hopper, Blackwell); use bfloat16 or auto on an older one, int8 or auto on a CPU"
        )
    if name == "int8" and not (device.type == "cpu" and has_int8()):
        raise SettingError(
            f"dtype 'int8' on {device}: it needs a CPU with AVX-512 VNNI and BF16; use auto"
        )
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _DTYPES[name]


def gains_from_bfloat16(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether half the bits would be faster: float32 on a CPU that multiplies such numbers."""
    return device.type == "cpu" and dtype == torch.float32 and has_fast_bfloat16()


def choose_cpu_backend(setting: str) -> CpuBackend:
    """Return whose kernels compute on a CPU.

    Raises:
        SettingError: it is not installed.
    """
    if setting != "openvino":
        return "torch"
    if not has_openvino():
        raise SettingError(
            "cpu_backend 'openvino': it is not installed; run `pip install 'sie-mcp[openvino]'`, "
            "or use torch"
        )
    return "openvino"


def budget_bytes(
    setting: str,
    device: torch.device,
    name: str = "memory_budget",
    *,
    cgroup: Cgroup | None = None,
) -> int:
    """Return the bytes that models may take: a fraction of what is free now, or a size.

    Raises:
        SettingError: neither a fraction up to 1 nor a size such as 6GiB.
    """
    match = _SIZE.fullmatch(setting.strip())
    if match is None:
        raise SettingError(f"{name} {setting!r}: use a fraction such as 0.8 or a size (6GiB)")
    number, unit = float(match[1]), match[2].lower()
    if not unit and match[3] is None and number <= 1.0:
        return int(free_bytes(device, cgroup) * number)
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


def max_forward_s(setting: float | None, devices: Sequence[torch.device]) -> float:
    """Return how long a forward pass may take; a full batch of a large model on a CPU is slow."""
    if setting is not None:
        return setting
    return 120.0 if all(device.type == "cuda" for device in devices) else 1800.0


def device_label(
    device: torch.device, dtype: str, paths: Sequence[str], backend: CpuBackend = "torch"
) -> str:
    """Return what speeds depend on beside the model: the chip, and how models run on it."""
    chip = f"{_processor()} x {torch.get_num_threads()}"
    if device.type == "cuda":
        chip = torch.cuda.get_device_name(device)
    ways = sorted(paths) if device.type == "cuda" else []
    if device.type == "cpu" and backend != "torch":
        ways.append(backend)
    return ", ".join([chip, dtype, *ways])


def _processor() -> str:
    """Return the processor's name as Linux says it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def max_batch_tokens(setting: int | None, device: torch.device) -> int:
    """Return the tokens of one forward pass.

    On a CPU larger batches are no faster, and hold memory and callers longer (evals/LOG.md, 14).
    """
    return setting or (4_096 if device.type == "cpu" else 16_384)


def share_interpreter() -> None:
    """Have threads pass the interpreter on quickly, and look for garbage less often.

    A forward pass gives it up at every operation; among threads that read requests it would wait
    up to 5 ms for each to have it back (evals/LOG.md, 14). A request of many texts makes thousands
    of objects that live until it is answered: each look at them finds nothing.
    """
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*GC_THRESHOLDS)


def free_bytes(device: torch.device, cgroup: Cgroup | None = None) -> int:
    """Return what is free on the device now; on the CPU within the container's limit."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = int(psutil.virtual_memory().available)
    within_limit = (cgroup or Cgroup()).free_bytes()
    return available if within_limit is None else min(available, within_limit)


def size_thread_pools(setting: int | None, cgroup: Cgroup | None = None) -> int:
    """Give every pool of threads that computes its size, before any has started; return it.

    Libraries count the machine's processors, not those that the container may use.
    """
    num_threads = setting or usable_cpus(cgroup or Cgroup())
    torch.set_num_threads(num_threads)
    # The tokenizers' pool reads this when it starts; whoever set it means it.
    os.environ.setdefault("RAYON_NUM_THREADS", str(num_threads))
    return num_threads


class AllocatorBytes(NamedTuple):
    """What torch's allocator says: live tensors, and all that it holds."""

    allocated: int | None
    cached: int | None


def allocator_bytes(device: torch.device) -> AllocatorBytes | None:
    """Return the allocator's own figures; None where it has none."""
    if device.type != "cuda":
        return None
    return AllocatorBytes(torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device))


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
