"""Which path attention takes on a device, and that every path gives what the formula gives."""

import logging
from typing import Any

import pytest
import torch

from sie_mcp.adapters.layers.attention import _log_slow_path, attention
from tests.eager import batch_of, eager, qkv

CUDA = torch.device("cuda")
LENGTHS = (200, 1, 37, 300, 8, 64)
ATTENDED = (100, 1, None, 150, 4, 64)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (16, 16)},
    "lopsided window": {"window": (8, 24)},
    "causal window": {"causal": True, "window": (16, 16)},
    "other scale": {"scale": 0.3},
    "capped": {"softcap": 2.0},
    "capped causal window": {"softcap": 2.0, "causal": True, "window": (16, 16)},
}
of_every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def _difference(
    dtype: torch.dtype, kind: dict[str, Any], *, attended: Any = None, **shape: int
) -> torch.Tensor:
    """Return how far the device is from the formula, on the same rounded tensors."""
    tensors = [x.to(dtype) for x in qkv(sum(LENGTHS), **shape)]
    batch = batch_of(LENGTHS, CUDA, attended)
    found = attention(*(x.to(CUDA) for x in tensors), batch, **kind).float().cpu()
    expected = eager(*(x.float() for x in tensors), LENGTHS, attended=attended, **kind)
    return (found - expected).abs()


@of_every_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (8, 1)], ids=str)
def test_half_precision_equals_the_formula(
    kind: dict[str, Any], dtype: torch.dtype, heads: tuple[int, int]
) -> None:
    shape = {"num_heads": heads[0], "num_kv_heads": heads[1], "head_dim": 64}
    assert _difference(dtype, kind, **shape).max() < 3e-2


@of_every_kind
def test_float32_equals_the_formula_closely(kind: dict[str, Any]) -> None:
    assert _difference(torch.float32, kind, head_dim=64).max() < 1e-4


@of_every_kind
def test_tokens_that_are_not_attended_are_not_seen(kind: dict[str, Any]) -> None:
    if "window" in kind:
        pytest.skip("a window may leave a token nothing to see")
    assert _difference(torch.bfloat16, kind, attended=ATTENDED, head_dim=64).max() < 3e-2


@pytest.mark.parametrize("head_dim", [12, 264])
def test_a_width_of_heads_that_no_kernel_takes_is_served_and_logged_once(
    head_dim: int, caplog: pytest.LogCaptureFixture
) -> None:
    _log_slow_path.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert _difference(torch.bfloat16, {}, head_dim=head_dim).max() < 3e-2
    messages = [one.getMessage() for one in caplog.records]
    assert messages == [
        f"packed attention kernel not used dtype=torch.bfloat16 head_dim={head_dim} softcap=None"
    ]


@pytest.mark.parametrize("head_dim", [8, 16, 32, 40, 64, 96, 128, 192, 256])
def test_every_width_that_the_kernel_claims_to_take(head_dim: int) -> None:
    assert _difference(torch.bfloat16, {}, head_dim=head_dim).max() < 3e-2


def test_a_bias_is_added_on_the_device() -> None:
    bias = torch.randn(4, max(LENGTHS), max(LENGTHS), generator=torch.Generator().manual_seed(3))
    tensors = qkv(sum(LENGTHS), head_dim=64)
    found = attention(
        *(x.to(CUDA) for x in tensors),
        batch_of(LENGTHS, CUDA),
        bias=lambda length: bias[:, :length, :length].to(CUDA),
    )
    assert (found.cpu() - eager(*tensors, LENGTHS, bias=bias)).abs().max() < 1e-4
