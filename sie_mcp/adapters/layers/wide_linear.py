"""A linear layer whose sums are not rounded to half precision, for what is computed on at once.

Rounded sums cost rotated queries and keys more digits than any other step: evals/LOG.md, entry 8.
"""

import torch
from torch import nn


def wide_linear(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """Return `(num_tokens, out_features)` in float32, from x and weights of any dtype.

    Only CUDA hands out its sums unrounded; elsewhere half precision is rounded first.
    """
    if not x.is_cuda or x.dtype == torch.float32:
        widened: torch.Tensor = linear(x)
        return widened.float()
    sums = torch.mm(x, linear.weight.t(), out_dtype=torch.float32)
    return sums if linear.bias is None else sums + linear.bias
