"""The check of each faster way, at the end of a load: the plain way beside it, on the device.

Recorded passes are checked when they are made, each by itself: see graphs.py.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from sie_mcp.adapters.adapter import Adapter, Sequence, SequenceOutput
from sie_mcp.adapters.agreement import HALF, Tolerance, comparable, disagreement
from sie_mcp.adapters.fast_paths import FastAdapter, report_off
from sie_mcp.adapters.packing import Copies, cut, pack, unpack
from sie_mcp.adapters.self_check import requests
from sie_mcp.adapters.widened import widened

# Times the plain way's distance; which of two roundings is the larger is chance.
_AS_NEAR = 2.0

_Run = Callable[[Adapter, list[Sequence], torch.device], list[SequenceOutput]]


def with_paths(
    adapter: Adapter, device: torch.device, wished: frozenset[str], tolerance: Tolerance = HALF
) -> Adapter:
    """Return the adapter taking those of the ways that give what the plain one gives.

    Args:
        adapter: Has passed its self-check.
        device: Where it runs.
        wished: Of "kernels", "graphs" and "overlap".
        tolerance: How far their numbers may be apart.
    """
    passed = {path for path in sorted(wished) if _passes(adapter, device, path, tolerance)}
    return FastAdapter(adapter, frozenset(passed)) if passed else adapter


def _passes(adapter: Adapter, device: torch.device, path: str, tolerance: Tolerance) -> bool:
    if path == "graphs":
        return True
    run = _overlapping if path == "overlap" else _with_kernels
    try:
        reason = _first_disagreement(adapter, device, run, tolerance)
    except torch.OutOfMemoryError:
        raise  # Says nothing of the way; the load may be tried again.
    except (RuntimeError, ValueError, LookupError, TypeError, AssertionError) as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        report_off(path, adapter.card.name, reason)
    return not reason


def _first_disagreement(
    adapter: Adapter, device: torch.device, run: _Run, tolerance: Tolerance
) -> str:
    for what, request in requests(adapter.card):
        sequences = adapter.prepare(request).sequences
        with torch.inference_mode():
            plain = _plainly(adapter, sequences, device)
            found = run(adapter, sequences, device)
        for one, other in zip(found, plain, strict=True):
            reasons = [
                f"{what and what + ': '}{name}: {reason}"
                for name, numbers, expected in comparable(one, other)
                if (reason := disagreement(numbers, expected, tolerance))
            ]
            if reasons and not _is_as_near(adapter, sequences, device, found, plain):
                return reasons[0]
    return ""


def _is_as_near(
    adapter: Adapter,
    sequences: list[Sequence],
    device: torch.device,
    found: list[SequenceOutput],
    plain: list[SequenceOutput],
) -> bool:
    """Whether a way is as near to float32 as the plain one: then the two differ by rounding.

    Some models carry rounding further than two ways may differ.
    """
    found = [_copied(one) for one in found]
    with torch.inference_mode(), widened():
        batch = replace(pack(sequences, device), allows_kernels=False)
        exact = unpack(adapter.forward(batch), len(sequences))
    return all(
        _distances(one, wide)[name] <= _AS_NEAR * distance
        for one, other, wide in zip(found, plain, exact, strict=True)
        for name, distance in _distances(other, wide).items()
    )


def _distances(found: SequenceOutput, exact: SequenceOutput) -> dict[str, float]:
    """Return each output's largest difference; what is no number is infinitely far."""
    differences = {
        name: float(np.abs(numbers - expected).max(initial=0.0))
        for name, numbers, expected in comparable(found, exact)
    }
    return {name: one if one >= 0 else np.inf for name, one in differences.items()}


def _plainly(
    adapter: Adapter, sequences: list[Sequence], device: torch.device
) -> list[SequenceOutput]:
    results = unpack(adapter.forward(pack(sequences, device)), len(sequences))
    return [_copied(one) for one in results]


def _copied(output: SequenceOutput) -> SequenceOutput:
    """Return the numbers as they are now, whoever else writes where they lie."""
    return {name: values.copy() for name, values in output.items()}


def _with_kernels(
    adapter: Adapter, sequences: list[Sequence], device: torch.device
) -> list[SequenceOutput]:
    batch = replace(pack(sequences, device, is_laid_out=True), paths=frozenset({"kernels"}))
    return unpack(adapter.forward(batch), len(sequences))


def _overlapping(
    adapter: Adapter, sequences: list[Sequence], device: torch.device
) -> list[SequenceOutput]:
    """Begin with another batch before the first one's results are waited for."""
    first = adapter.forward(pack(sequences, device))
    copies = Copies(first, is_pinned=True)
    second = Copies(adapter.forward(pack(sequences[::-1], device)), is_pinned=True)
    results = cut(first, copies.arrived(), len(sequences))
    second.arrived()
    return results
