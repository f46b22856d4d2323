"""Scaling to unit root mean square, without a mean and without a bias.

Source: Zhang & Sennrich 2019.
"""

import torch
from torch import nn
from torch.nn import functional


class RmsNorm(nn.Module):
    """x / rms(x) · weight; `from_one` has the weight counted from one, as Gemma keeps it."""

    def __init__(self, size: int, eps: float, *, from_one: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps
        self.from_one = from_one

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale the last dimension; dtype kept, sums in float32."""
        if not self.from_one:
            weight = self.weight.to(x.dtype)
            return functional.rms_norm(x, weight.shape, weight, self.eps)
        # One plus a small weight has too few digits in bfloat16.
        weight = 1.0 + self.weight.float()
        return functional.rms_norm(x.float(), weight.shape, weight, self.eps).to(x.dtype)
