"""What an exception out of a forward pass means: no memory, a lost device, or the sequences' fault.

Knows the words of torch and CUDA, so that nobody else has to.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sie_mcp.errors import OutOfMemory

# CUDA reports these once and refuses everything after: only a new process has a device again.
# https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html, "inconsistent state".
_LOST = (
    "device-side assert",
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "hardware stack error",
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable",
    "device is lost",
    "device has fallen off",
    "context is destroyed",
)
# Not every allocator has torch's own class for it.
_NO_MEMORY = (
    "cuda error: out of memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "can't allocate memory",
)


class DeviceLost(Exception):
    """The device answers nothing any more; no forward pass of this process can succeed."""


@contextmanager
def understood(device: torch.device, message: str) -> Iterator[None]:
    """Say what a failure of what moves weights means.

    Raises:
        OutOfMemory: with this message.
        DeviceLost: nothing can be moved any more.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise OutOfMemory(message) from error
        if is_device_lost(error, device):
            raise DeviceLost(f"{type(error).__name__}: {error!s:.200}") from error
        raise


def is_out_of_memory(error: Exception) -> bool:
    """Whether less at once, or later, may fit: on the device or in the host's memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and _says(error, _NO_MEMORY)


def is_device_lost(error: Exception, device: torch.device) -> bool:
    """Whether the device is of no more use, by the error's words or by asking it."""
    if isinstance(error, RuntimeError) and _says(error, _LOST):
        return True
    return device.type == "cuda" and not _answers(device)


def _says(error: Exception, phrases: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(phrase in text for phrase in phrases)


def _answers(device: torch.device) -> bool:
    """Run the smallest kernel to its end."""
    try:
        torch.ones(1, device=device).add_(1).item()
    except torch.OutOfMemoryError:
        return True
    except RuntimeError:
        return False
    return True
