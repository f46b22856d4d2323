"""Whether a kernel may run: Triton is installed, and on this device it gives what torch gives.

Knows no kernel; each is a module beside this one with a function `check`.
"""

import importlib
import importlib.util
from functools import cache
from types import ModuleType

import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.fast_paths import report_off

_HALF = (torch.float16, torch.bfloat16)


def usable(name: str, x: torch.Tensor, batch: PackedBatch) -> ModuleType | None:
    """Return the module of a kernel that may compute on x; None: torch must."""
    if not allows_kernels(batch) or not can_run(x):
        return None
    return _checked(name, x.device)


def allows_kernels(batch: PackedBatch) -> bool:
    """Whether a batch may be computed by kernels of our own."""
    return batch.allows_kernels and "kernels" in batch.paths


def can_run(x: torch.Tensor) -> bool:
    """Whether kernels are made for such a tensor."""
    return x.is_cuda and x.dtype in _HALF


@cache
def _checked(name: str, device: torch.device) -> ModuleType | None:
    """Import and try a kernel, once a device; what fails is off for good and logged."""
    if importlib.util.find_spec("triton") is None:
        report_off("kernels", name, "triton is not installed")
        return None
    try:
        module = importlib.import_module(f"{__package__}.{name}")
        with torch.inference_mode():
            difference = float(module.check(device))
    except torch.OutOfMemoryError:
        raise  # Says nothing of the kernel; it is tried again.
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises, torch computes the same
        report_off("kernels", f"{name} on {device}", f"{type(error).__name__}: {error}")
        return None
    # So put, what is no number does not pass.
    if not difference <= module.TOLERANCE:
        report_off("kernels", f"{name} on {device}", f"numbers differ by {difference:.2g}")
        return None
    return module
