"""The largest logit of each sequence and column, read from packed rows in one pass.

Twin: the loop over sequences of adapters/sparse.py.
"""

import torch
import triton
import triton.language as tl

TOLERANCE = 0.0
_TOKENS, _COLUMNS = 16, 256
_NAN, _NEVER = tl.constexpr(float("nan")), tl.constexpr(float("-inf"))


@triton.jit(do_not_specialize=["first", "last", "start"])
def _raise_to(
    x, cu_seqlens, out, first, last, start, SIZE: tl.constexpr, TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    sequence = start + tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin = tl.maximum(tl.load(cu_seqlens + sequence), first)
    end = tl.minimum(tl.load(cu_seqlens + sequence + 1), last)
    place = out + sequence.to(tl.int64) * SIZE + columns
    highest = tl.load(place, columns < SIZE, 0.0)
    # A maximum passes over what is no number: seen by itself.
    is_odd = (highest != highest).to(tl.int32)
    for token in range(begin, end, TOKENS):
        rows = token + tl.arange(0, TOKENS)
        inside = (rows < end)[:, None] & (columns < SIZE)[None, :]
        places = (rows - first)[:, None].to(tl.int64) * SIZE + columns[None, :]
        block = tl.load(x + places, inside, _NEVER).to(tl.float32)
        is_odd = tl.maximum(is_odd, tl.max((block != block).to(tl.int32), 0))
        highest = tl.maximum(highest, tl.max(block, 0))
    tl.store(place, tl.where(is_odd > 0, _NAN, highest), columns < SIZE)


def raise_to(
    out: torch.Tensor, x: torch.Tensor, cu_seqlens: torch.Tensor, first: int, sequences: range
) -> None:
    """Raise the rows of sequences to the largest of their tokens' numbers, where these are larger.

    Args:
        out: float32 `(num_seqs, size)`.
        x: Contiguous `(num_rows, size)`, of the tokens from `first` on.
        cu_seqlens: int32 `(num_seqs + 1,)`.
        first: The token that x begins with.
        sequences: Those that have tokens in x; no others.
    """
    size = x.shape[1]
    grid = (len(sequences), triton.cdiv(size, _COLUMNS))
    _raise_to[grid](
        x, cu_seqlens, out, first, first + len(x), sequences.start, SIZE=size, TOKENS=_TOKENS,
        COLUMNS=_COLUMNS, num_warps=4,
    )  # fmt: skip


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch, of tokens in two parts."""
    generator = torch.Generator(device).manual_seed(0)
    lengths, cut = (1, 50, 7, 33), 40
    x = torch.randn(sum(lengths), 300, generator=generator, device=device).to(dtype)
    ends = torch.tensor([0, 1, 51, 58, 91], dtype=torch.int32, device=device)
    out = torch.zeros(len(lengths), 300, device=device)
    raise_to(out, x[:cut], ends, 0, range(2))
    raise_to(out, x[cut:], ends, cut, range(1, 4))
    expected = torch.stack([part.float().amax(0) for part in x.split(lengths)]).clamp(min=0.0)
    worst = float((out - expected).abs().max())
    x[60, 5] = torch.nan
    raise_to(out, x[cut:], ends, cut, range(1, 4))
    return worst if torch.argwhere(out.isnan()).tolist() == [[3, 5]] else float("inf")
