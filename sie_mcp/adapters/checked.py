"""Half precision and int8 on a CPU, served only where it agrees with float32: otherwise float32 is.

A GPU's half precision is checked elsewhere, once for each family. Knows adapters, no engine.
"""

import logging
from collections.abc import Sequence

import numpy as np
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter, SequenceOutput
from sie_mcp.adapters.layers.cpu.int8_linear import Int8Linear
from sie_mcp.adapters.layers.cpu.packed_linear import PackedLinear
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.self_check import answers

logger = logging.getLogger(__name__)

MIN_COSINE = 0.999
MIN_COSINES = {torch.int8: 0.99}
# Of outputs too narrow for a direction, such as scores: the largest difference, of their own size.
MAX_DIFFERENCE = 0.05
_MIN_WIDTH = 8
_TINY = 1e-30


def stored_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return what weights are read as: beside linear layers in int8 the rest is bfloat16."""
    return torch.bfloat16 if dtype == torch.int8 else dtype


def needs_check(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a load first answers in float32, which takes that much memory until it is done."""
    return device.type == "cpu" and dtype != torch.float32


def load_checked(
    recipe: Recipe,
    *,
    device: torch.device,
    dtype: torch.dtype,
    paths: frozenset[str] = frozenset(),
) -> Adapter:
    """Load as `load_adapter` does; on a CPU in `dtype` only if that agrees with float32.

    Raises:
        ModelLoadFailed: as there.
    """
    if not needs_check(device, dtype):
        return _load(recipe, device, dtype, paths)
    expected = _answers_in_float32(recipe, device)
    adapter = _load(recipe, device, dtype)
    reason = disagreement(expected, answers(adapter, device), MIN_COSINES.get(dtype))
    if reason is None:
        return adapter
    logger.warning("float32 instead of %s model=%s reason=%s", dtype, recipe.name, reason)
    _free(adapter)
    return _load(recipe, device, torch.float32)


def _load(
    recipe: Recipe,
    device: torch.device,
    dtype: torch.dtype,
    paths: frozenset[str] = frozenset(),
) -> Adapter:
    packing = Int8Linear if dtype == torch.int8 else PackedLinear
    stored = stored_dtype(dtype)
    return create.load_adapter(recipe, device=device, dtype=stored, packing=packing, paths=paths)


def disagreement(
    expected: Sequence[SequenceOutput],
    found: Sequence[SequenceOutput],
    min_cosine: float | None = None,
) -> str | None:
    """Say what differs too much between the outputs of the same sequences; None: nothing does."""
    least = MIN_COSINE if min_cosine is None else min_cosine
    for wide, own in zip(expected, found, strict=True):
        for name, values in wide.items():
            other = own[name]
            if values.dtype.kind != "f" or values.shape != other.shape or not values.size:
                continue  # Ids of a sparse vector, or as many weights as are not zero.
            reason = _difference(values.astype(np.float64), other.astype(np.float64), least)
            if reason is not None:
                return f"{name}: {reason}"
    return None


def _difference(expected: np.ndarray, found: np.ndarray, min_cosine: float) -> str | None:
    if expected.shape[-1] < _MIN_WIDTH or expected.ndim < 2:
        largest = float(np.abs(expected - found).max()) / max(float(np.abs(expected).max()), 1.0)
        # So put, what is no number does not pass.
        return None if largest <= MAX_DIFFERENCE else f"differs by {largest:.2g}"
    norms = np.linalg.norm(expected, axis=-1) * np.linalg.norm(found, axis=-1)
    cosines = (expected * found).sum(-1) / np.maximum(norms, _TINY)
    are_zero = ~(expected.any(-1) | found.any(-1))
    cosine = float(np.where(are_zero, 1.0, cosines).min())
    return None if cosine >= min_cosine else f"cosine {cosine:.5f}"


def _answers_in_float32(recipe: Recipe, device: torch.device) -> list[SequenceOutput]:
    adapter = create.load_adapter(recipe, device=device, dtype=torch.float32)
    try:
        return answers(adapter, device)
    finally:
        _free(adapter)


def _free(adapter: Adapter) -> None:
    if adapter.weights is not None:
        adapter.weights.leave()
