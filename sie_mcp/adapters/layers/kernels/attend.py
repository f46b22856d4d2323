"""Attention over packed sequences that are mostly short: one program for each tile of queries.

Sums and softmax in float32, as Dao 2023 orders them. Kernels made for long sequences take tiles of
128 of each and one program for each place that the longest sequence has. Twin: SDPA.
"""

import torch
import triton
import triton.language as tl
from torch.nn import functional

from sie_mcp.adapters.tiles import make_tiles

TOLERANCE = 2e-2
HEAD_DIMS = (16, 32, 64, 128)
# Rows of a tile to keys of a step, warps and stages.
STEPS = {16: (16, 1, 2), 32: (32, 1, 2), 64: (32, 4, 3), 128: (64, 8, 3)}
_ALL = (-1, -1)
_LOG2_E = 1.4426950408889634


@triton.jit(do_not_specialize=["left", "right"])
def _attend(
    q, k, v, out, tiles, q_token, q_head, k_token, k_head, v_token, v_head, scale,
    left, right, HEAD_DIM: tl.constexpr, NUM_HEADS: tl.constexpr, GROUP: tl.constexpr,
    HAS_WINDOW: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    # Heads of a tile run side by side: each reads a part of the same lines of memory.
    tile, head = tl.program_id(0) // NUM_HEADS, tl.program_id(0) % NUM_HEADS
    start = tl.load(tiles + 3 * tile)
    length = tl.load(tiles + 3 * tile + 1) - start
    first = tl.load(tiles + 3 * tile + 2) - start
    if first >= length:
        return
    rows = first + tl.arange(0, ROWS)
    dims = tl.arange(0, HEAD_DIM)
    is_row = (rows < length)[:, None]
    tokens = (start + rows).to(tl.int64)[:, None]
    queries = tl.load(q + tokens * q_token + head * q_head + dims[None, :], is_row, 0.0)
    begin, end = first * 0, length
    if HAS_WINDOW:
        if left >= 0:
            begin = tl.maximum(first - left, 0) // KEYS * KEYS
        if right >= 0:
            end = tl.minimum(length, first + ROWS + right)
    # Finite: a row that sees no key of a block must not become what is no number.
    highest = tl.full((ROWS,), -1e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    for begin_key in range(begin, end, KEYS):
        keys = begin_key + tl.arange(0, KEYS)
        is_key = (keys < length)[:, None]
        key_tokens = (start + keys).to(tl.int64)[:, None]
        group = head // GROUP
        k_block = tl.load(k + key_tokens * k_token + group * k_head + dims[None, :], is_key, 0.0)
        v_block = tl.load(v + key_tokens * v_token + group * v_head + dims[None, :], is_key, 0.0)
        scores = tl.dot(queries, tl.trans(k_block))
        seen = (keys < length)[None, :]
        if HAS_WINDOW:
            distance = keys[None, :] - rows[:, None]
            if left >= 0:
                seen = seen & (distance >= -left)
            if right >= 0:
                seen = seen & (distance <= right)
        scores = tl.where(seen, scores, -1e30)
        now = tl.maximum(highest, tl.max(scores, 1))
        shrink = tl.exp2((highest - now) * scale)
        if HAS_WINDOW:
            weights = tl.exp2((scores - now[:, None]) * scale)
        else:
            # One fused step, but not for rows without a key: they would be off by what is rounded.
            weights = tl.exp2(scores * scale - (now * scale)[:, None])
        total = total * shrink + tl.sum(weights, 1)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(v_block.dtype), v_block)
        highest = now
    places = (tokens * NUM_HEADS + head) * HEAD_DIM + dims[None, :]
    tl.store(out + places, mixed / total[:, None], is_row)


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    tiles: torch.Tensor,
    *,
    tile_rows: int,
    window: tuple[int, int],
    scale: float,
) -> torch.Tensor:
    """Return `(num_tokens, num_heads, head_dim)`.

    Args:
        q: `(num_tokens, num_heads, head_dim)`; the last dimension lies together.
        k: `(num_tokens, num_kv_heads, head_dim)`.
        v: As k.
        cu_seqlens: int32 `(num_seqs + 1,)`.
        tiles: int32 `(num_tiles, 2)`: a sequence, and a token of it that a tile begins with. A tile
            behind the sequence's end is none.
        tile_rows: Queries of a tile.
        window: How far a token sees to the left and the right; -1: to the end.
        scale: Of the scores, above zero.
    """
    num_tokens, num_heads, head_dim = q.shape
    out = torch.empty((num_tokens, num_heads, head_dim), dtype=q.dtype, device=q.device)
    keys, num_warps, num_stages = STEPS[tile_rows]
    _attend[(len(tiles) * num_heads,)](
        q, k, v, out, tiles, q.stride(0), q.stride(1), k.stride(0), k.stride(1),
        v.stride(0), v.stride(1), scale * _LOG2_E, *window, HEAD_DIM=head_dim,
        NUM_HEADS=num_heads, GROUP=num_heads // k.shape[1], HAS_WINDOW=window != (-1, -1),
        ROWS=tile_rows, KEYS=keys, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch."""
    generator = torch.Generator(device).manual_seed(0)
    lengths = (1, 70, 130)
    shape = (3, sum(lengths), 2, 32)
    q, k, v = torch.randn(shape, generator=generator, device=device).to(dtype)
    worst = 0.0
    every = ((rows, _ALL) for rows in STEPS)
    for rows, window in (*every, (64, (16, 16)), (64, (-1, 0))):
        tiles = torch.from_numpy(make_tiles(lengths, rows)).to(device)
        found = attend(q, k, v, tiles, tile_rows=rows, window=window, scale=32**-0.5)
        parts = (one.float().split(lengths) for one in (q, k, v))
        expected = torch.cat([_alone(a, b, c, window) for a, b, c in zip(*parts, strict=True)])
        worst = max(worst, float((found - expected).abs().max()))
    return worst


def _alone(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: tuple[int, int]
) -> torch.Tensor:
    places = torch.arange(len(q), device=q.device)
    distance = places[None, :] - places[:, None]
    left, right = (len(q) if one < 0 else one for one in window)
    mask = (distance >= -left) & (distance <= right)
    q, k, v = (one.transpose(0, 1) for one in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1)
