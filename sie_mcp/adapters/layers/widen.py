"""A linear layer and its activation: where one matrix product may do both, it does.

The product's own GELU is the tanh form, applied to sums that were not rounded yet. In bfloat16 that
is closer to the exact function than the exact one of rounded sums: by the norm of the difference
.0017 against .0027 of the result (torch 2.11, H100). float16 has digits enough to tell the forms
apart, so there only models that were trained with the tanh form get it.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.activations import Activation
from sie_mcp.adapters.layers.float8_linear import Float8Linear, Rounded
from sie_mcp.adapters.layers.kernels.switch import allows_kernels, usable
from sie_mcp.adapters.layers.project import project, project_activated

_TANH_FORMS = ("gelu_new", "gelu_fast", "gelu_pytorch_tanh")
_IN_ONE = {torch.bfloat16: ("gelu", *_TANH_FORMS), torch.float16: _TANH_FORMS}
# Those that torch computes in several passes over memory.
_IN_SEVERAL = ("quick_gelu",)


def widen(
    x: torch.Tensor, up: nn.Linear, act: str, activation: Activation, batch: PackedBatch
) -> torch.Tensor:
    """Return activation(up(x)), `(num_tokens, out_features)`.

    Args:
        x: `(num_tokens, in_features)`.
        up: The layer.
        act: The activation's name.
        activation: The function itself.
        batch: Tells whether a kernel may run, and whether a text has its own change of the layer.
    """
    is_open = allows_kernels(batch) and batch.loras is None and up.bias is not None
    if x.is_cuda and is_open and act in _IN_ONE.get(x.dtype, ()):
        return torch._addmm_activation(up.bias, x, up.weight.t(), use_gelu=True)
    widened = up(x)
    kernels = usable("gates", widened, batch) if act in _IN_SEVERAL else None
    if kernels is not None:
        applied: torch.Tensor = kernels.applied(widened, act)
        return applied
    return activation(widened)


def widen_and_narrow(
    x: torch.Tensor,
    up: nn.Linear,
    down: nn.Linear,
    act: str,
    activation: Activation,
    batch: PackedBatch,
    eight: Rounded | None = None,
) -> torch.Tensor:
    """Return down(activation(up(x))), `(num_tokens, down.out_features)`: as `widen`, and back.

    `eight`: x rounded for `up` already.
    """
    if isinstance(up, Float8Linear):
        widened = project(x, up, batch, eight)
        narrowed = project_activated(widened, act, down, batch)
        return project(activation(widened), down, batch) if narrowed is None else narrowed
    return project(widen(x, up, act, activation, batch), down, batch)
