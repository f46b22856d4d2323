"""Sums that stay in float32, on a device that hands them out unrounded."""

import pytest
import torch

from sie_mcp.adapters.layers.wide_linear import WideLinear

CUDA = torch.device("cuda")


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_of_half_precision_are_not_rounded(dtype: torch.dtype, has_bias: bool) -> None:
    torch.manual_seed(0)
    layer = WideLinear(512, 384, bias=has_bias).to(dtype)
    x = torch.randn(300, 512).to(dtype)
    with torch.inference_mode():
        expected = layer.double()(x.double())
        found = layer.to(CUDA, dtype)(x.to(CUDA)).double().cpu()
        rounded = expected.to(dtype).double()
    assert (found - expected).abs().max() < 1e-4
    assert (rounded - expected).abs().max() > 2e-4
