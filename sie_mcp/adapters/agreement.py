"""Whether a faster way's numbers are those of the plain one, but for rounding in half precision."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far numbers may be apart.

    Attributes:
        difference: Of the largest number.
        min_cosine: Of each row: a few wrong rows drown in the largest number.
    """

    difference: float
    min_cosine: float


# Half precision sums in another order when the way changes.
HALF = Tolerance(5e-2, 0.99)
# In eight bits one last digit of such a sum is an eighth of what the next layer reads.
EIGHT = Tolerance(0.15, 0.97)
# Rows of fewer numbers may be nothing but rounding.
_MIN_WIDTH = 16


def disagreement(found: np.ndarray, expected: np.ndarray, tolerance: Tolerance = HALF) -> str:
    """Return how two arrays differ by more than rounding; "": they do not."""
    if found.shape != expected.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if not expected.size:
        return ""
    difference = float(np.abs(found - expected).max())
    scale = max(float(np.abs(expected).max()), 1.0)
    # So put, what is no number does not pass.
    if not difference <= tolerance.difference * scale:
        return f"numbers differ by {difference:.2g}"
    if expected.ndim > 1 and expected.shape[-1] >= _MIN_WIDTH:
        cosine = _lowest_cosine(found, expected)
        if not cosine >= tolerance.min_cosine:
            return f"a row's cosine is {cosine:.3g}"
    return ""


def _lowest_cosine(found: np.ndarray, expected: np.ndarray) -> float:
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(expected, axis=-1)
    # A row of zeros has no direction.
    cosines = np.where(norms > 0, (found * expected).sum(-1) / np.where(norms > 0, norms, 1), 1.0)
    return float(cosines.min())
