"""Whether a faster way's numbers are those of the plain one, but for rounding in half precision."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from sie_mcp.adapters.adapter import SequenceOutput

Numbers = np.ndarray | torch.Tensor


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


def disagreement(found: Numbers, expected: Numbers, tolerance: Tolerance = HALF) -> str:
    """Return how two arrays of one device differ by more than rounding; "": they do not."""
    one, other = torch.as_tensor(found), torch.as_tensor(expected)
    if one.shape != other.shape:
        return f"shape {tuple(one.shape)} instead of {tuple(other.shape)}"
    if not other.numel():
        return ""
    difference = float((one - other).abs().max())
    scale = max(float(other.abs().max()), 1.0)
    # So put, what is no number does not pass.
    if not difference <= tolerance.difference * scale:
        return f"numbers differ by {difference:.2g}"
    if other.ndim > 1 and other.shape[-1] >= _MIN_WIDTH:
        cosine = _lowest_cosine(one, other)
        if not cosine >= tolerance.min_cosine:
            return f"a row's cosine is {cosine:.3g}"
    return ""


def _lowest_cosine(found: torch.Tensor, expected: torch.Tensor) -> float:
    norms = found.norm(dim=-1) * expected.norm(dim=-1)
    # A row of zeros has no direction.
    cosines = torch.where(norms > 0, (found * expected).sum(-1) / norms, 1.0)
    return float(cosines.min())
