"""Arrays in one copy from pinned memory to a device, and back. Knows nothing of models."""

import threading
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

# Kernels read whole vectors.
_ALIGNMENT = 16


def to_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Return the arrays there, views of one buffer; the copy may be under way on return."""
    if device.type != "cuda":
        return [torch.from_numpy(one).to(device) for one in arrays]
    places = []
    end = 0
    for one in arrays:
        places.append((end, end + one.nbytes))
        end += one.nbytes + -one.nbytes % _ALIGNMENT
    # The host's allocator keeps such memory, and gives it out again once the copy has read it.
    pinned = torch.empty(end, dtype=torch.uint8, pin_memory=True)
    host = pinned.numpy()
    for one, (first, last) in zip(arrays, places, strict=True):
        host[first:last] = np.ascontiguousarray(one).reshape(-1).view(np.uint8)
    there = pinned.to(device, non_blocking=True)
    return [
        there[first:last].view(_DTYPES[one.dtype.str]).view(one.shape)
        for one, (first, last) in zip(arrays, places, strict=True)
    ]


def joined_to_device(arrays: Sequence[np.ndarray], device: torch.device) -> torch.Tensor:
    """Return large arrays of bytes there, one behind the other; none is copied twice on the host.

    The copy runs beside what the device still computes: this batch's colours come in while the last
    batch is in hand. What is computed next waits for it, the host does not.

    Args:
        arrays: uint8 `(num_rows, …)`, alike but for the rows.
        device: Where they go.
    """
    if device.type != "cuda":
        return torch.from_numpy(np.concatenate(arrays)).to(device)
    shape = (sum(len(one) for one in arrays), *arrays[0].shape[1:])
    pinned = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
    np.concatenate(arrays, out=pinned.numpy())
    computing = torch.cuda.current_stream(device)
    copying = _copying(device, threading.get_ident())
    with torch.cuda.stream(copying):
        there = pinned.to(device, non_blocking=True)
    computing.wait_stream(copying)
    # Its memory is the other stream's, which may give it to the next only when this one is done.
    there.record_stream(computing)
    return there


@cache
def _copying(device: torch.device, thread: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def to_host(tensors: Sequence[torch.Tensor], *, is_pinned: bool) -> Callable[[], list[np.ndarray]]:
    """Return what gives the arrays; where `is_pinned`, the copies begin now and it waits once."""
    if not is_pinned or not any(one.is_cuda for one in tensors):
        return lambda: [one.cpu().numpy() for one in tensors]
    copies = [
        torch.empty(one.shape, dtype=one.dtype, pin_memory=True).copy_(one, non_blocking=True)
        for one in tensors
    ]
    copied = torch.cuda.current_stream(tensors[0].device).record_event()

    def arrived() -> list[np.ndarray]:
        copied.synchronize()
        return [one.numpy() for one in copies]

    return arrived


_DTYPES = {"<i8": torch.int64, "<i4": torch.int32}
