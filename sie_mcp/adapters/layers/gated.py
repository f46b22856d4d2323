"""The gated MLP: one half of a widened vector, activated, weighs the other (GeGLU, SwiGLU).

Source: Shazeer 2020. Both halves come from one matrix multiplication.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.layers.float8_linear import Rounded
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.layers.project import project, project_activated


class GatedMlp(nn.Module):
    """down(act(a) * b), where a and b are the halves of up(x).

    Args:
        hidden_size: Of what comes in and goes out.
        intermediate_size: Of each half.
        act: Activation by name.
        has_up_bias: Of the widening layer.
        has_down_bias: Of the narrowing one.
        is_gate_first: Which half is activated, as a checkpoint has them in one matrix.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        act: str,
        *,
        has_up_bias: bool = False,
        has_down_bias: bool = False,
        is_gate_first: bool = True,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, 2 * intermediate_size, bias=has_up_bias)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=has_down_bias)
        self.act, self.activation = act, activation(act)
        self.is_gate_first = is_gate_first

    def forward(
        self, x: torch.Tensor, batch: PackedBatch | None = None, eight: Rounded | None = None
    ) -> torch.Tensor:
        """Return a tensor of the same shape, `(num_tokens, hidden_size)`.

        Args:
            x: Rows of any kind.
            batch: Tells whether a kernel may run; None: none may.
            eight: x rounded for `up` already.
        """
        if batch is None:
            return self._gated(self.up(x))
        widened = project(x, self.up, batch, eight)
        gate = "first" if self.is_gate_first else "second"
        narrowed = project_activated(widened, self.act, self.down, batch, gate=gate)
        if narrowed is not None:
            return narrowed
        kernels = usable("gates", widened, batch)
        if kernels is not None and self.act in kernels.KINDS:
            gated = kernels.gated(widened, self.act, is_gate_first=self.is_gate_first)
            return self._down(gated)
        return self._gated(widened)

    def _gated(self, widened: torch.Tensor) -> torch.Tensor:
        first, second = widened.chunk(2, dim=-1)
        activated, weighed = (first, second) if self.is_gate_first else (second, first)
        return self._down(self.activation(activated) * weighed)

    def _down(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(x)
        return y


def run_mlp(
    mlp: nn.Module, x: torch.Tensor, batch: PackedBatch, eight: Rounded | None = None
) -> torch.Tensor:
    """Run an MLP of any kind; a gated one may take a kernel where the batch may."""
    y: torch.Tensor = mlp(x, batch, eight) if isinstance(mlp, GatedMlp) else mlp(x)
    return y
