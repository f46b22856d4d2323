"""Forward passes as a worker's device thread makes them: packed, overlapping, checked."""

from collections.abc import Sequence as Series

import torch

from sie_mcp.adapters.adapter import Adapter, Result, Sequence
from sie_mcp.adapters.fast_paths import paths_of
from sie_mcp.engine.recovery import Finish, Forwards


def make_forwards(device: torch.device) -> Forwards:
    """Return what runs passes on a device, with nothing to evict and nobody to tell."""
    return Forwards(
        device, lambda: False, lambda: None, lambda *_: None, retries_nonfinite=device.type != "cpu"
    )


def run_all(
    forwards: Forwards, adapter: Adapter, parts: Series[list[Sequence]]
) -> list[list[Result]]:
    """Run batches; where the adapter's may overlap, each begins before the last is waited for."""
    if "overlap" not in paths_of(adapter):
        return [forwards.run(adapter, part) for part in parts]
    results = []
    finish: Finish | None = None
    for part in parts:
        started = forwards.start(adapter, part)
        if finish is not None:
            results.append(finish())
        finish = started
    if finish is not None:
        results.append(finish())
    return results
