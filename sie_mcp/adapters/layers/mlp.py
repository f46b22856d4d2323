"""The plain MLP: widen, activate, narrow."""

import torch
from torch import nn

from sie_mcp.adapters.layers.activations import activation


class Mlp(nn.Module):
    """down(act(up(x)))."""

    def __init__(
        self, hidden_size: int, intermediate_size: int, act: str, *, has_bias: bool = False
    ) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, intermediate_size, bias=has_bias)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=has_bias)
        self.act, self.activation = act, activation(act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the same shape, `(num_tokens, hidden_size)`."""
        y: torch.Tensor = self.down(self.activation(self.up(x)))
        return y
