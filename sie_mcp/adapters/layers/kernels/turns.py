"""Rotary positions of queries and keys, one pass each. Twin: `rotate` of layers/rotary.py."""

import torch
import triton
import triton.language as tl

TOLERANCE = 3e-2


@triton.jit
def _turn(
    x, cos, sin, out, x_token, x_head, NUM_HEADS: tl.constexpr, HALF: tl.constexpr,
    HEADS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    heads, dims = tl.arange(0, HEADS), tl.arange(0, BLOCK)
    inside = (heads < NUM_HEADS)[:, None] & (dims < HALF)[None, :]
    places = x + token * x_token + heads[:, None] * x_head + dims[None, :]
    first = tl.load(places, inside, 0.0).to(tl.float32)
    second = tl.load(places + HALF, inside, 0.0).to(tl.float32)
    known = dims < HALF
    angles = token * 2 * HALF + dims
    first_cos, first_sin = tl.load(cos + angles, known, 0.0), tl.load(sin + angles, known, 0.0)
    second_cos = tl.load(cos + angles + HALF, known, 0.0)
    second_sin = tl.load(sin + angles + HALF, known, 0.0)
    own = out + (token * NUM_HEADS + heads[:, None]) * 2 * HALF + dims[None, :]
    tl.store(own, first * first_cos[None, :] - second * first_sin[None, :], inside)
    tl.store(own + HALF, second * second_cos[None, :] + first * second_sin[None, :], inside)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x turned, `(num_tokens, num_heads, head_dim)`.

    Args:
        x: The last dimension lies together.
        cos: float32 `(num_tokens, 1, head_dim)`, contiguous.
        sin: The same.
    """
    num_tokens, num_heads, head_dim = x.shape
    out = torch.empty((num_tokens, num_heads, head_dim), dtype=x.dtype, device=x.device)
    half = head_dim // 2
    _turn[(num_tokens,)](
        x, cos, sin, out, x.stride(0), x.stride(1), NUM_HEADS=num_heads, HALF=half,
        HEADS=triton.next_power_of_2(num_heads), BLOCK=triton.next_power_of_2(half), num_warps=2,
    )  # fmt: skip
    return out


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch."""
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(33, 3, 3, 24, generator=generator, device=device).to(dtype)[:, 1]
    angles = torch.rand(33, 1, 24, generator=generator, device=device)
    cos, sin = angles.cos(), angles.sin()
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    expected = wide * cos + torch.cat((-second, first), dim=-1) * sin
    difference = (turned(x, cos, sin) - expected).abs() / expected.abs().clamp(min=1.0)
    return float(difference.max())
