"""Whether a faster way's numbers are those of the plain one, but for rounding in half precision."""

from collections.abc import Iterator

import numpy as np

from sie_mcp.adapters.adapter import SequenceOutput

# Half precision sums in another order when the way changes; of the largest number.
_TOLERANCE = 5e-2
# Of each row: a few wrong rows drown in the largest number.
_MIN_COSINE = 0.99
# Rows of fewer numbers may be nothing but rounding.
_MIN_WIDTH = 16


def comparable(
    found: SequenceOutput, expected: SequenceOutput
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name and both arrays of the numbers that two ways gave for one sequence.

    Weights of a sparse vector lie at their indices, `(1, last index + 1)`: which of them are above
    zero is a matter of rounding. So is how many spans are; those of other shapes are left out.
    """
    for name, values in expected.items():
        if name == "sparse_values":
            size = 1 + max(int(one["sparse_indices"].max(initial=0)) for one in (found, expected))
            yield name, _laid_out(found, size), _laid_out(expected, size)
        elif values.dtype.kind == "f" and found[name].shape == values.shape:
            yield name, found[name], values


def _laid_out(output: SequenceOutput, size: int) -> np.ndarray:
    weights = np.zeros((1, size), np.float32)
    weights[0, output["sparse_indices"]] = output["sparse_values"]
    return weights


def disagreement(found: np.ndarray, expected: np.ndarray) -> str:
    """Return how two arrays differ by more than rounding; "": they do not."""
    if found.shape != expected.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if not expected.size:
        return ""
    difference = float(np.abs(found - expected).max())
    scale = max(float(np.abs(expected).max()), 1.0)
    # So put, what is no number does not pass.
    if not difference <= _TOLERANCE * scale:
        return f"numbers differ by {difference:.2g}"
    if expected.ndim > 1 and expected.shape[-1] >= _MIN_WIDTH:
        cosine = _lowest_cosine(found, expected)
        if not cosine >= _MIN_COSINE:
            return f"a row's cosine is {cosine:.3g}"
    return ""


def _lowest_cosine(found: np.ndarray, expected: np.ndarray) -> float:
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(expected, axis=-1)
    # A row of zeros has no direction.
    cosines = np.where(norms > 0, (found * expected).sum(-1) / np.where(norms > 0, norms, 1), 1.0)
    return float(cosines.min())
