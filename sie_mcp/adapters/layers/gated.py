"""The gated MLP: one half of a widened vector, activated, weighs the other (GeGLU, SwiGLU).

Source: Shazeer 2020. Both halves come from one matrix multiplication.
"""

import torch
from torch import nn

from sie_mcp.adapters.layers.activations import activation


class GatedMlp(nn.Module):
    """down(act(a) * b), where a and b are the halves of up(x), a first."""

    def __init__(
        self, hidden_size: int, intermediate_size: int, act: str, *, has_bias: bool = False
    ) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, 2 * intermediate_size, bias=has_bias)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=has_bias)
        self.activation = activation(act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the same shape, `(num_tokens, hidden_size)`."""
        activated, weighed = self.up(x).chunk(2, dim=-1)
        y: torch.Tensor = self.down(self.activation(activated) * weighed)
        return y
