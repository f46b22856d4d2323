"""Rows of two or three tables, added and normed in one pass. Twin: the modules themselves."""

import torch
import triton
import triton.language as tl
from torch.nn import functional

TOLERANCE = 3e-2


@triton.jit
def _embed(
    ids, positions, types, word, position, kind, weight, bias, out, eps,
    SIZE: tl.constexpr, HAS_POSITIONS: tl.constexpr, HAS_TYPES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < SIZE
    wide = tl.load(word + tl.load(ids + token) * SIZE + columns, inside, 0.0).to(tl.float32)
    if HAS_TYPES:
        wide += tl.load(kind + tl.load(types + token) * SIZE + columns, inside, 0.0).to(tl.float32)
    if HAS_POSITIONS:
        row = tl.load(positions + token)
        wide += tl.load(position + row * SIZE + columns, inside, 0.0).to(tl.float32)
    mean = tl.sum(wide, 0) / SIZE
    wide = tl.where(inside, wide - mean, 0.0)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / SIZE + eps)
    normed = wide * scale * tl.load(weight + columns, inside, 0.0).to(tl.float32)
    normed += tl.load(bias + columns, inside, 0.0).to(tl.float32)
    tl.store(out + token * SIZE + columns, normed, inside)


def embedded(
    ids: torch.Tensor,
    word: torch.Tensor,
    norm: tuple[torch.Tensor, torch.Tensor, float],
    *,
    positions: tuple[torch.Tensor, torch.Tensor] | None = None,
    types: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Return the normed sum of each token's rows, `(num_tokens, width)`.

    Args:
        ids: int64 `(num_tokens,)`; none may be outside of the table.
        word: The table.
        norm: Weight, bias and epsilon.
        positions: Ids and their table.
        types: The same.
    """
    num_tokens, width = len(ids), word.shape[1]
    out = torch.empty((num_tokens, width), dtype=word.dtype, device=word.device)
    weight, bias, eps = norm
    place_ids, place_table = (ids, word) if positions is None else positions
    type_ids, type_table = (ids, word) if types is None else types
    _embed[(num_tokens,)](
        ids, place_ids, type_ids, word, place_table, type_table, weight, bias, out, eps,
        SIZE=width, HAS_POSITIONS=positions is not None, HAS_TYPES=types is not None,
        BLOCK=triton.next_power_of_2(width), num_warps=2 if width <= 512 else 4,
    )  # fmt: skip
    return out


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch."""
    generator = torch.Generator(device).manual_seed(0)
    word, position, kind = (
        torch.randn(rows, 384, generator=generator, device=device).to(dtype)
        for rows in (100, 64, 2)
    )
    ids = torch.arange(50, device=device) * 7 % 100
    places, types = ids % 64, ids % 2
    weight, bias = word[0], word[1]
    total = word[ids].float() + position[places].float() + kind[types].float()
    expected = functional.layer_norm(total, (384,), weight.float(), bias.float(), 1e-5)
    found = embedded(
        ids, word, (weight, bias, 1e-5), positions=(places, position), types=(types, kind)
    )
    return float(((found - expected).abs() / expected.abs().clamp(min=1.0)).max())
