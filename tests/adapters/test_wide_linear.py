"""Sums that stay in float32, on the CPU."""

import pytest
import torch

from sie_mcp.adapters.layers.wide_linear import WideLinear


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_it_is_the_layer_in_float32(dtype: torch.dtype) -> None:
    layer = WideLinear(24, 40, dtype=dtype)
    x = torch.linspace(-1, 1, 7 * 24).view(7, 24).to(dtype)
    wide = layer(x)
    assert wide.dtype == torch.float32
    assert torch.equal(wide, torch.nn.functional.linear(x, layer.weight, layer.bias).float())
