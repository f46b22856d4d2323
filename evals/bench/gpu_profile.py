"""Where a batch's device time goes, kernel by kernel."""

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

NUM_KERNELS = 12


def top_kernels(run: Callable[[], None]) -> dict[str, Any]:
    """Run once under the profiler; return milliseconds and calls of the longest kernels."""
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as kept:
        run()
        torch.cuda.synchronize()
    found = [one for one in kept.key_averages() if one.self_device_time_total > 0]
    found.sort(key=lambda one: -one.self_device_time_total)
    total = sum(one.self_device_time_total for one in found)
    kernels = [
        {
            "kernel": one.key[:90],
            "ms": round(one.self_device_time_total / 1000, 3),
            "calls": one.count,
        }
        for one in found[:NUM_KERNELS]
    ]
    return {"device_ms": round(total / 1000, 3), "kernels": kernels}
