"""Which linear layers of a model are kept in eight bits, and on which devices.

Knows modules and devices; the numbers are the layer's own.
"""

from collections import Counter

import torch
from torch import nn

from sie_mcp.adapters.cpu_linears import READ_ELSEWHERE
from sie_mcp.adapters.layers.float8_linear import FLOAT8, STEP, Float8Linear

# Of compute capability: devices that multiply such numbers.
LEAST_CAPABILITY = (8, 9)
# A smaller product takes no longer in half precision.
MIN_NUMBERS = 256 * 256


def has_float8(device: torch.device) -> bool:
    """Whether a device multiplies floats of eight bits."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY


def stored_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return what weights become: beside linear layers of eight bits the rest is bfloat16."""
    return torch.bfloat16 if dtype in (torch.int8, FLOAT8) else dtype


def use_float8(model: nn.Module, encoder: nn.Module, architecture: str) -> int:
    """Replace an encoder's linear layers by ones of eight bits; return how many.

    Layers of other classes stay, and those that are small, that share their weights, that are read
    by others, or whose sides the products do not take.

    Args:
        model: All of it, without numbers yet.
        encoder: The part whose layers are replaced.
        architecture: By name: some read a layer's weights themselves.
    """
    others = READ_ELSEWHERE.get(architecture, ())
    uses = Counter(id(one) for _, one in model.named_parameters(remove_duplicate=False))
    found = {
        name: one
        for name, one in encoder.named_modules()
        if type(one) is nn.Linear
        and one.in_features % STEP == 0
        and one.out_features % STEP == 0
        and one.weight.numel() >= MIN_NUMBERS
        and uses[id(one.weight)] == 1
        and name.rpartition(".")[2] not in others
    }
    for name, one in found.items():
        encoder.set_submodule(name, Float8Linear(one))
    return len(found)
