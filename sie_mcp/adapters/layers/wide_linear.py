"""Layers whose results are not rounded to half precision, for what is computed on at once.

Rounded sums cost rotated queries and keys more digits than any other step: evals/LOG.md, entry 8.
"""

import torch
from torch import nn
from torch.nn import functional


class WideLinear(nn.Linear):
    """W x + b in float32, from x and weights of any dtype.

    Only CUDA hands out its sums unrounded; elsewhere half precision is rounded first.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return `(num_tokens, out_features)`."""
        if not input.is_cuda or input.dtype == torch.float32:
            return super().forward(input).float()
        sums = torch.mm(input, self.weight.t(), out_dtype=torch.float32)
        return sums if self.bias is None else sums + self.bias


class WideLayerNorm(nn.LayerNorm):
    """A norm of x in float32, whatever the dtypes of x and of the weights."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the shape of the input."""
        weight, bias = self.weight.float(), self.bias.float()
        return functional.layer_norm(input.float(), self.normalized_shape, weight, bias, self.eps)
