"""Residual and norm, in one pass over memory where a kernel may; else as torch has them."""

from typing import NamedTuple

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.float8_linear import Rounded
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.layers.project import rounding


class Normed(NamedTuple):
    """Normed states `(num_tokens, hidden_size)`; `eight`: rounded for the layer that reads them."""

    states: torch.Tensor
    eight: Rounded | None = None


def add_norm(
    x: torch.Tensor,
    added: torch.Tensor,
    norm: nn.LayerNorm,
    batch: PackedBatch,
    reader: nn.Module | None = None,
) -> Normed:
    """Return norm(x + added): what follows a post-norm layer's part.

    Args:
        x: What came into the part.
        added: What it made of that.
        norm: With a weight and a bias.
        batch: Tells whether a kernel may run.
        reader: The layer that reads the result next.
    """
    kernels = usable("norms", x, batch)
    if kernels is None:
        return Normed(norm(x + added))
    settings = kernels.Norm(norm.weight, norm.bias, norm.eps)
    if reader is not None and rounding(x, reader, batch) is not None:
        states, _, eight = kernels.normed_and_rounded(x, added, settings)
        return Normed(states, eight)
    return Normed(kernels.normed(x, added, settings))


def sum_and_norm(
    x: torch.Tensor,
    added: torch.Tensor,
    norm: nn.LayerNorm,
    batch: PackedBatch,
    reader: nn.Module | None = None,
) -> tuple[torch.Tensor, Normed]:
    """Return x + added, and the norm of that: what stands between two parts of a pre-norm layer."""
    kernels = usable("norms", x, batch)
    if kernels is None:
        total = x + added
        return total, Normed(norm(total))
    settings = kernels.Norm(norm.weight, norm.bias, norm.eps)
    if reader is not None and rounding(x, reader, batch) is not None:
        states, total, eight = kernels.normed_and_rounded(x, added, settings, keeps_sum=True)
        return total, Normed(states, eight)
    normed, total = kernels.normed_and_sum(x, added, settings)
    return total, Normed(normed)
