"""A linear layer whose sums are not rounded to half precision, for what is computed on at once.

Rounded sums cost rotated queries and keys more digits than any other step: evals/LOG.md, entry 8.
"""

import torch
from torch import nn


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
