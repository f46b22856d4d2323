"""The mean of each sequence's tokens, read from packed states in one pass; sums in float32.

Twin: `pool` of layers/pooling.py.
"""

import torch
import triton
import triton.language as tl

TOLERANCE = 1e-4
_TOKENS, _COLUMNS = 32, 128


@triton.jit
def _mean(
    x, cu_seqlens, out, SIZE: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    sequence = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(cu_seqlens + sequence)
    end = tl.load(cu_seqlens + sequence + 1)
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(start, end, TOKENS):
        rows = first + tl.arange(0, TOKENS)
        inside = (rows < end)[:, None] & (columns < SIZE)[None, :]
        places = rows[:, None].to(tl.int64) * SIZE + columns[None, :]
        total += tl.sum(tl.load(x + places, inside, 0.0).to(tl.float32), 0)
    tl.store(out + sequence.to(tl.int64) * SIZE + columns, total / (end - start), columns < SIZE)


def mean(x: torch.Tensor, cu_seqlens: torch.Tensor, num_seqs: int) -> torch.Tensor:
    """Return float32 `(num_seqs, size)` of states `(num_tokens, size)`; none may be empty."""
    size = x.shape[1]
    out = torch.empty((num_seqs, size), dtype=torch.float32, device=x.device)
    grid = (num_seqs, triton.cdiv(size, _COLUMNS))
    _mean[grid](x, cu_seqlens, out, SIZE=size, TOKENS=_TOKENS, COLUMNS=_COLUMNS, num_warps=4)
    return out


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch."""
    generator = torch.Generator(device).manual_seed(0)
    lengths = (1, 50, 7, 33)
    x = torch.randn(sum(lengths), 200, generator=generator, device=device).to(dtype)
    ends = torch.tensor([0, 1, 51, 58, 91], dtype=torch.int32, device=device)
    expected = torch.stack([part.float().mean(0) for part in x.split(lengths)])
    return float((mean(x, ends, len(lengths)) - expected).abs().max())
