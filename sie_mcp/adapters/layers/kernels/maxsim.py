"""MaxSim of packed token vectors: one program for an item and a tile of its query's tokens.

Products and sums in float32. Twin: `maxsim` of layers/maxsim.py, the part without kernels.
"""

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl

from sie_mcp.adapters.one_copy import to_device

TOLERANCE = 1e-4
_ROWS, _TOKENS, _COLUMNS = 32, 64, 64
_NEVER = tl.constexpr(float("-inf"))


@triton.jit
def _maxsim(
    vectors, cu_seqlens, queries, query_ends, pairs, kept, out, SIZE: tl.constexpr,
    HAS_KEPT: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    pair, tile = tl.program_id(0), tl.program_id(1)
    item, query = tl.load(pairs + 2 * pair), tl.load(pairs + 2 * pair + 1)
    start, end = tl.load(cu_seqlens + item), tl.load(cu_seqlens + item + 1)
    last_row = tl.load(query_ends + query + 1)
    rows = tl.load(query_ends + query) + tile * ROWS + tl.arange(0, ROWS)
    is_row = rows < last_row
    highest = tl.full((ROWS,), _NEVER, tl.float32)
    # A maximum passes over what is no number: seen by itself.
    is_odd = tl.zeros((ROWS,), tl.int32)
    for first in range(start, end, TOKENS):
        tokens = first + tl.arange(0, TOKENS)
        inside = tokens < end
        scores = tl.zeros((ROWS, TOKENS), tl.float32)
        for column in range(0, SIZE, COLUMNS):
            columns = column + tl.arange(0, COLUMNS)
            there = (columns < SIZE)[None, :]
            a_places = rows[:, None].to(tl.int64) * SIZE + columns[None, :]
            b_places = tokens[:, None].to(tl.int64) * SIZE + columns[None, :]
            a = tl.load(queries + a_places, is_row[:, None] & there, 0.0)
            b = tl.load(vectors + b_places, inside[:, None] & there, 0.0)
            scores += tl.dot(a, tl.trans(b), input_precision="ieee")
        counts = inside
        if HAS_KEPT:
            counts = inside & (tl.load(kept + tokens, inside, 0) != 0)
        is_odd = tl.maximum(is_odd, tl.max((counts[None, :] & (scores != scores)).to(tl.int32), 1))
        highest = tl.maximum(highest, tl.max(tl.where(counts[None, :], scores, _NEVER), 1))
    best = tl.where(highest == _NEVER, 0.0, highest)
    best = tl.where(is_odd > 0, float("nan"), best)
    tl.store(out + pair * tl.num_programs(1) + tile, tl.sum(tl.where(is_row, best, 0.0), 0))


def maxsim(
    vectors: torch.Tensor,
    cu_seqlens: torch.Tensor,
    queries: Sequence[torch.Tensor],
    pairs: Sequence[tuple[int, int]],
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return float32 `(num_pairs,)`; an item without a token that counts has 0.

    Args:
        vectors: float32 `(num_tokens, dims)`, contiguous.
        cu_seqlens: int32 `(num_seqs + 1,)`.
        queries: float32 `(num_query_tokens, dims)` each.
        pairs: The sequence of an item, and the place of its query.
        kept: bool `(num_tokens,)`: an item's tokens that count; None: all.
    """
    lengths = [len(one) for one in queries]
    ends = np.cumsum([0, *lengths])
    numbers = np.concatenate([ends, np.array(pairs).ravel()]).astype(np.int32)
    (there,) = to_device([numbers], vectors.device)
    tiles = max(triton.cdiv(max(lengths), _ROWS), 1)
    out = torch.empty((len(pairs), tiles), dtype=torch.float32, device=vectors.device)
    mask = there if kept is None else kept.view(torch.uint8)
    _maxsim[(len(pairs), tiles)](
        vectors, cu_seqlens, torch.cat(list(queries)), there, there[len(ends) :], mask, out,
        SIZE=vectors.shape[1], HAS_KEPT=kept is not None, ROWS=_ROWS, TOKENS=_TOKENS,
        COLUMNS=_COLUMNS, num_warps=4,
    )  # fmt: skip
    return out.sum(1)


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch, of vectors that were `dtype` before."""
    generator = torch.Generator(device).manual_seed(0)
    lengths = (1, 130, 64)
    x = torch.randn(sum(lengths) + 43, 96, generator=generator, device=device).to(dtype).float()
    x = torch.nn.functional.normalize(x, dim=-1)
    queries = [x[195:235], x[235:]]
    x = x[:195]
    ends = torch.tensor([0, 1, 131, 195], dtype=torch.int32, device=device)
    kept = torch.rand(len(x), generator=generator, device=device) < 0.7
    kept[0] = False  # All of the first.
    pairs = [(0, 0), (1, 0), (2, 0), (1, 1)]
    parts, masks = x.split(lengths), kept.split(lengths)
    worst = 0.0
    for mask in (None, kept):
        found = maxsim(x, ends, queries, pairs, mask)
        for score, (item, query) in zip(found, pairs, strict=True):
            own = parts[item] if mask is None else parts[item][masks[item]]
            best = (queries[query] @ own.T).amax(1).sum() if len(own) else torch.zeros_like(score)
            worst = max(worst, float((score - best).abs()))
    x[-1, 0] = torch.nan
    odd = maxsim(x, ends, queries, pairs).isnan().tolist()
    return worst if odd == [False, False, True, False] else float("inf")
