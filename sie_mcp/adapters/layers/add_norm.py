"""Residual and norm, in one pass over memory where a kernel may; else as torch has them."""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.kernels.switch import usable


def add_norm(
    x: torch.Tensor, added: torch.Tensor, norm: nn.LayerNorm, batch: PackedBatch
) -> torch.Tensor:
    """Return norm(x + added), `(num_tokens, hidden_size)`: what follows a post-norm layer's part.

    Args:
        x: What came into the part.
        added: What it made of that.
        norm: With a weight and a bias.
        batch: Tells whether a kernel may run.
    """
    kernels = usable("norms", x, batch)
    if kernels is None:
        y: torch.Tensor = norm(x + added)
        return y
    settings = kernels.Norm(norm.weight, norm.bias, norm.eps)
    normed: torch.Tensor = kernels.normed(x, added, settings)
    return normed


def sum_and_norm(
    x: torch.Tensor, added: torch.Tensor, norm: nn.LayerNorm, batch: PackedBatch
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x + added, and the norm of that: what stands between two parts of a pre-norm layer."""
    kernels = usable("norms", x, batch)
    if kernels is None:
        total = x + added
        return total, norm(total)
    settings = kernels.Norm(norm.weight, norm.bias, norm.eps)
    normed, total = kernels.normed_and_sum(x, added, settings)
    return total, normed
