"""Whether a kernel may run: Triton is installed, and on this device it gives what torch gives.

Knows no kernel; each is a module beside this one with a function `check`.
"""

import importlib
import importlib.util
import logging
from functools import cache
from types import ModuleType

import torch

from sie_mcp.adapters.adapter import PackedBatch

logger = logging.getLogger(__name__)

_HALF = (torch.float16, torch.bfloat16)


def usable(name: str, x: torch.Tensor, batch: PackedBatch | None = None) -> ModuleType | None:
    """Return the module of a kernel that may compute on x; None: torch must.

    Where a layer knows no batch, the batch has no say.
    """
    is_allowed = batch is None or batch.allows_kernels
    if not x.is_cuda or not is_allowed or x.dtype not in _HALF:
        return None
    return _checked(name, x.device)


@cache
def _checked(name: str, device: torch.device) -> ModuleType | None:
    """Import and try a kernel, once a device; what fails is off for good and logged."""
    if importlib.util.find_spec("triton") is None:
        logger.warning("kernels not used reason=%s", "triton is not installed")
        return None
    try:
        module = importlib.import_module(f"{__package__}.{name}")
        with torch.inference_mode():
            difference = float(module.check(device))
    except torch.OutOfMemoryError:
        raise  # Says nothing of the kernel; it is tried again.
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises, torch computes the same
        logger.warning("kernel off name=%s device=%s error=%.200s", name, device, error)
        return None
    # So put, what is no number does not pass.
    if not difference <= module.TOLERANCE:
        logger.warning("kernel off name=%s device=%s difference=%g", name, device, difference)
        return None
    return module
