"""Small dtypes, served only where they agree with a larger one: otherwise that one is.

Half precision and int8 on a CPU with float32, eight-bit floats on a GPU with bfloat16. A GPU's half
precision is checked elsewhere, once for each family. Knows adapters, no engine.
"""

import logging
from collections.abc import Sequence

import numpy as np
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter, SequenceOutput
from sie_mcp.adapters.cpu_backend import CpuBackend, refusal
from sie_mcp.adapters.layers.cpu.int8_linear import Int8Linear
from sie_mcp.adapters.layers.cpu.packed_linear import PackedLinear
from sie_mcp.adapters.layers.float8_linear import FLOAT8
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.self_check import answers
from sie_mcp.errors import InferenceError, ModelLoadFailed

logger = logging.getLogger(__name__)

MIN_COSINE = 0.999
# float32 is held against float32 where another library computes it.
MIN_COSINES = {torch.int8: 0.99, FLOAT8: 0.99, torch.float32: 0.99999}
# Of outputs too narrow for a direction, such as scores: the largest difference, of their own size.
MAX_DIFFERENCE = 0.05
_MIN_WIDTH = 8
_TINY = 1e-30


def load_checked(
    recipe: Recipe,
    *,
    device: torch.device,
    dtype: torch.dtype,
    paths: frozenset[str] = frozenset(),
    backend: CpuBackend = "torch",
) -> Adapter:
    """Load as `load_adapter` does; in a dtype that is small for the device only if it agrees.

    On a CPU that is all but float32, on CUDA eight-bit floats, which are compared with bfloat16.
    What OpenVINO computes is compared with torch's float32; where it does not agree, or OpenVINO
    has no such model, torch computes it, with a line in the log.

    Raises:
        ModelLoadFailed: as there.
    """
    if backend == "openvino":
        adapter, reason = _in_openvino(recipe, device, dtype)
        if adapter is not None:
            return adapter
        logger.warning("torch instead of openvino model=%s reason=%s", recipe.name, reason)
    wider = wider_dtype(device, dtype)
    if wider is None:
        return _load(recipe, device, dtype, paths)
    expected = _answers_in(wider, recipe, device)
    adapter, reason = _tried(recipe, device, dtype, paths, expected)
    if adapter is not None:
        return adapter
    logger.warning("%s instead of %s model=%s reason=%s", wider, dtype, recipe.name, reason)
    return _load(recipe, device, wider, paths)


def wider_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype | None:
    """Return the dtype whose answers count, which a load takes memory for; None: no other."""
    if device.type == "cpu":
        return None if dtype == torch.float32 else torch.float32
    return torch.bfloat16 if dtype == FLOAT8 else None


def _in_openvino(
    recipe: Recipe, device: torch.device, dtype: torch.dtype
) -> tuple[Adapter | None, str | None]:
    """Return an adapter that gives what torch gives in float32; else why there is none."""
    reason = refusal(recipe, device, dtype)
    if reason is not None:
        return None, reason
    expected = _answers_in(torch.float32, recipe, device)
    try:
        adapter = create.load_adapter(recipe, device=device, dtype=dtype, backend="openvino")
        return _agreeing(adapter, device, dtype, expected)
    except (ModelLoadFailed, InferenceError) as error:
        return None, str(error)


def _tried(
    recipe: Recipe,
    device: torch.device,
    dtype: torch.dtype,
    paths: frozenset[str],
    expected: Sequence[SequenceOutput],
) -> tuple[Adapter | None, str | None]:
    """Return an adapter that gives what is expected; else why there is none."""
    try:
        adapter = _load(recipe, device, dtype, paths)
    except ModelLoadFailed as error:
        if dtype != FLOAT8:
            raise
        return None, str(error)
    return _agreeing(adapter, device, dtype, expected)


def _agreeing(
    adapter: Adapter,
    device: torch.device,
    dtype: torch.dtype,
    expected: Sequence[SequenceOutput],
) -> tuple[Adapter | None, str | None]:
    """Return the adapter if it gives what is expected; else free it and say what differs."""
    reason = disagreement(expected, answers(adapter, device), MIN_COSINES.get(dtype))
    if reason is None:
        return adapter, None
    _free(adapter)
    return None, reason


def _load(
    recipe: Recipe,
    device: torch.device,
    dtype: torch.dtype,
    paths: frozenset[str] = frozenset(),
) -> Adapter:
    packing = Int8Linear if dtype == torch.int8 else PackedLinear
    return create.load_adapter(recipe, device=device, dtype=dtype, packing=packing, paths=paths)


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


def _answers_in(dtype: torch.dtype, recipe: Recipe, device: torch.device) -> list[SequenceOutput]:
    adapter = create.load_adapter(recipe, device=device, dtype=dtype)
    try:
        return answers(adapter, device)
    finally:
        _free(adapter)


def _free(adapter: Adapter) -> None:
    if adapter.weights is not None:
        adapter.weights.leave()
