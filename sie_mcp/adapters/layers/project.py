"""Linear layers beside kernels: what one of eight bits reads is rounded in one pass.

Layers of other classes run as they are. Knows no model.
"""

from types import ModuleType

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.float8_linear import Float8Linear, Rounded
from sie_mcp.adapters.layers.kernels.switch import usable


def project(
    x: torch.Tensor, layer: nn.Linear, batch: PackedBatch, eight: Rounded | None = None
) -> torch.Tensor:
    """Return layer(x), `(num_rows, out_features)`.

    Args:
        x: `(num_rows, in_features)`.
        layer: Of any class.
        batch: Tells whether a kernel may run.
        eight: The same rows, rounded for this layer already.
    """
    if eight is not None and isinstance(layer, Float8Linear):
        return layer.product(eight)
    kernels = rounding(x, layer, batch)
    if kernels is None or not isinstance(layer, Float8Linear):
        y: torch.Tensor = layer(x)
        return y
    return layer.product(kernels.rounded(x))


def project_activated(
    x: torch.Tensor, act: str, layer: nn.Linear, batch: PackedBatch, *, gate: str = ""
) -> torch.Tensor | None:
    """Return layer(act(x)), activated and rounded in one pass; None: it has to be in two.

    Args:
        x: `(num_rows, in_features)`; with a gate twice as wide.
        act: The activation's name.
        layer: Of any class.
        batch: Tells whether a kernel may run.
        gate: Which half is activated and weighs the other, "first" or "second"; "": no halves.
    """
    kernels = rounding(x, layer, batch)
    if kernels is None or act not in kernels.KINDS or not isinstance(layer, Float8Linear):
        return None
    return layer.product(kernels.rounded(x, act, gate))


def rounding(x: torch.Tensor, layer: nn.Module, batch: PackedBatch) -> ModuleType | None:
    """Return the kernels that round what a layer reads; None: it does so itself, or needs none.

    A text's own change of the layer is added by the layer's call, which this goes around.
    """
    if not isinstance(layer, Float8Linear) or batch.loras is not None or not len(x):
        return None
    kernels = usable("rounds", x, batch)
    if kernels is None or layer.in_features > kernels.MAX_SIZE:
        return None
    return kernels
