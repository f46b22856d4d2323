"""One query that reads all tokens of each sequence: a program for each sequence and head.

Sums and softmax in float32. Kernels for many queries a sequence would compute a whole tile of them.
Twin: `AttentionPooling`.
"""

import torch
import triton
import triton.language as tl

# Of half precision, in which what was read is written, on numbers of size one.
TOLERANCE = 2e-2
# Wider heads are left to torch: a block of them does not fit in registers.
MAX_HEAD_DIM = 128
_TOKENS = 32
_LOG2_E = 1.4426950408889634


@triton.jit
def _read(
    q, kv, cu_seqlens, out, scale, HEAD_DIM: tl.constexpr, NUM_HEADS: tl.constexpr,
    DIMS: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    # Heads of a sequence run side by side: each reads a part of the same lines of memory.
    sequence, head = tl.program_id(0) // NUM_HEADS, tl.program_id(0) % NUM_HEADS
    start = tl.load(cu_seqlens + sequence)
    end = tl.load(cu_seqlens + sequence + 1)
    dims = tl.arange(0, DIMS)
    known = dims < HEAD_DIM
    query = tl.load(q + head * HEAD_DIM + dims, known, 0.0).to(tl.float32) * scale
    highest = tl.full((1,), -1e30, tl.float32)
    total = tl.zeros((1,), tl.float32)
    mixed = tl.zeros((DIMS,), tl.float32)
    for first in range(start, end, TOKENS):
        rows = first + tl.arange(0, TOKENS)
        inside = (rows < end)[:, None] & known[None, :]
        places = rows[:, None].to(tl.int64) * (2 * NUM_HEADS * HEAD_DIM) + head * HEAD_DIM
        places += dims[None, :]
        keys = tl.load(kv + places, inside, 0.0).to(tl.float32)
        values = tl.load(kv + places + NUM_HEADS * HEAD_DIM, inside, 0.0).to(tl.float32)
        scores = tl.where(rows < end, tl.sum(keys * query[None, :], 1), -1e30)
        now = tl.maximum(highest, tl.max(scores, 0))
        shrink = tl.exp2(highest - now)
        weights = tl.exp2(scores - now)
        total = total * shrink + tl.sum(weights, 0)
        mixed = mixed * shrink + tl.sum(weights[:, None] * values, 0)
        highest = now
    place = (sequence.to(tl.int64) * NUM_HEADS + head) * HEAD_DIM
    tl.store(out + place + dims, mixed / total, known)


def read(
    q: torch.Tensor, kv: torch.Tensor, cu_seqlens: torch.Tensor, num_seqs: int, scale: float
) -> torch.Tensor:
    """Return `(num_seqs, num_heads, head_dim)`; no sequence may be empty.

    Args:
        q: `(num_heads, head_dim)`, the same for all.
        kv: Contiguous `(num_tokens, 2, num_heads, head_dim)`: keys, then values.
        cu_seqlens: int32 `(num_seqs + 1,)`.
        num_seqs: How many sequences.
        scale: Of the scores.
    """
    num_heads, head_dim = q.shape
    out = torch.empty((num_seqs, num_heads, head_dim), dtype=kv.dtype, device=kv.device)
    _read[(num_seqs * num_heads,)](
        q, kv, cu_seqlens, out, scale * _LOG2_E, HEAD_DIM=head_dim, NUM_HEADS=num_heads,
        DIMS=triton.next_power_of_2(head_dim), TOKENS=_TOKENS, num_warps=4,
    )  # fmt: skip
    return out


def check(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Return the largest difference to torch, of heads of several widths."""
    generator = torch.Generator(device).manual_seed(0)
    lengths, ends = (1, 50, 7, 33), [0, 1, 51, 58, 91]
    worst = 0.0
    for head_dim in (8, 64, 72):
        shape = (sum(lengths) + 1, 2, 3, head_dim)
        drawn = torch.randn(shape, generator=generator, device=device).to(dtype)
        q, kv = drawn[0, 0].contiguous(), drawn[1:].contiguous()
        cu_seqlens = torch.tensor(ends, dtype=torch.int32, device=device)
        found = read(q, kv, cu_seqlens, len(lengths), head_dim**-0.5)
        for own, part in zip(found, kv.float().split(lengths), strict=True):
            scores = (part[:, 0] * q.float()).sum(-1) * head_dim**-0.5
            expected = (torch.softmax(scores, 0)[..., None] * part[:, 1]).sum(0)
            worst = max(worst, float((own.float() - expected).abs().max()))
    return worst
