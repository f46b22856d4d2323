"""MaxSim of packed token vectors: one program for an item and a tile of its query's tokens.

Products and sums in float32. Twin: `maxsim` of layers/maxsim.py, the part without kernels.
"""

import torch
import triton
import triton.language as tl

TOLERANCE = 1e-4
_ROWS, _TOKENS, _COLUMNS = 32, 64, 64
_NAN, _NEVER = tl.constexpr(float("nan")), tl.constexpr(float("-inf"))


@triton.jit
def _maxsim(
    vectors, cu_seqlens, pairs, kept, out, SIZE: tl.constexpr, SKIPPED: tl.constexpr,
    HAS_KEPT: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    pair, tile = tl.program_id(0), tl.program_id(1)
    item, query = tl.load(pairs + 2 * pair), tl.load(pairs + 2 * pair + 1)
    start, end = tl.load(cu_seqlens + item), tl.load(cu_seqlens + item + 1)
    last_row = tl.load(cu_seqlens + query + 1)
    rows = tl.load(cu_seqlens + query) + SKIPPED + tile * ROWS + tl.arange(0, ROWS)
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
            a = tl.load(vectors + a_places, is_row[:, None] & there, 0.0)
            b = tl.load(vectors + b_places, inside[:, None] & there, 0.0)
            scores += tl.dot(a, tl.trans(b), input_precision="ieee")
        counts = inside
        if HAS_KEPT:
            counts = inside & (tl.load(kept + tokens, inside, 0) != 0)
        is_odd = tl.maximum(is_odd, tl.max((counts[None, :] & (scores != scores)).to(tl.int32), 1))
        highest = tl.maximum(highest, tl.max(tl.where(counts[None, :], scores, _NEVER), 1))
    best = tl.where(highest == _NEVER, 0.0, highest)
    best = tl.where(is_odd > 0, _NAN, best)
    tl.store(out + pair * tl.num_programs(1) + tile, tl.sum(tl.where(is_row, best, 0.0), 0))


def maxsim(
    vectors: torch.Tensor,
    cu_seqlens: torch.Tensor,
    pairs: torch.Tensor,
    longest_query: int,
    kept: torch.Tensor | None = None,
    skipped: int = 0,
) -> torch.Tensor:
    """Return float32 `(num_pairs,)`; an item without a token that counts has 0.

    Args:
        vectors: float32 `(num_tokens, dims)`, contiguous.
        cu_seqlens: int32 `(num_seqs + 1,)`.
        pairs: int32 `(num_pairs, 2)`: the sequence of an item, and that of its query.
        longest_query: No query has more tokens.
        kept: bool `(num_tokens,)`: an item's tokens that count; None: all.
        skipped: Leading tokens of a query that do not count.
    """
    tiles = triton.cdiv(longest_query, _ROWS)
    out = torch.empty((len(pairs), tiles), dtype=torch.float32, device=vectors.device)
    mask = pairs if kept is None else kept.view(torch.uint8)
    _maxsim[(len(pairs), tiles)](
        vectors, cu_seqlens, pairs, mask, out, SIZE=vectors.shape[1], SKIPPED=skipped,
        HAS_KEPT=kept is not None, ROWS=_ROWS, TOKENS=_TOKENS, COLUMNS=_COLUMNS, num_warps=4,
    )  # fmt: skip
    return out.sum(1)


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch, of vectors that were `dtype` before."""
    generator = torch.Generator(device).manual_seed(0)
    lengths = (40, 1, 130, 64, 3)
    x = torch.randn(sum(lengths), 96, generator=generator, device=device).to(dtype).float()
    x = torch.nn.functional.normalize(x, dim=-1)
    ends = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32, device=device)
    kept = torch.rand(len(x), generator=generator, device=device) < 0.7
    kept[40] = False  # All of the second.
    pairs = [(1, 0), (2, 0), (3, 0), (2, 4)]
    there = torch.tensor(pairs, dtype=torch.int32, device=device)
    parts, masks = x.split(lengths), kept.split(lengths)
    worst = 0.0
    for mask, skipped in ((None, 0), (kept, 1)):
        found = maxsim(x, ends, there, max(lengths), mask, skipped)
        for score, (item, query) in zip(found, pairs, strict=True):
            own = parts[item] if mask is None else parts[item][masks[item]]
            best = (
                (parts[query][skipped:] @ own.T).amax(1).sum()
                if len(own)
                else torch.zeros_like(score)
            )
            worst = max(worst, float((score - best).abs()))
    x[-1, 0] = torch.nan
    odd = maxsim(x, ends, there, max(lengths)).isnan().tolist()
    return worst if odd == [False, False, False, True] else float("inf")
