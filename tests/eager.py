"""Attention written out for one sequence at a time, in float64: slow, plain, the reference."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from sie_mcp.adapters import adapter
from sie_mcp.adapters.packing import pack


def batch_of(
    lengths: Sequence[int],
    device: torch.device,
    attended: Sequence[int | None] | None = None,
) -> adapter.PackedBatch:
    """Pack sequences of these lengths; their ids do not matter."""
    seen = attended or [None] * len(lengths)
    sequences = [
        adapter.Sequence(np.zeros(length, dtype=np.int64), num_attended=count)
        for length, count in zip(lengths, seen, strict=True)
    ]
    return pack(sequences, device)


def qkv(
    num_tokens: int, *, num_heads: int = 4, num_kv_heads: int = 4, head_dim: int = 8, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random queries, keys and values."""
    generator = torch.Generator().manual_seed(seed)
    heads = (num_heads, num_kv_heads, num_kv_heads)
    q, k, v = (torch.randn(num_tokens, n, head_dim, generator=generator) for n in heads)
    return q, k, v


def eager(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: Sequence[int],
    *,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
    attended: Sequence[int | None] | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attend within each sequence; `bias` is `(num_heads, longest, longest)`."""
    out = []
    start = 0
    seen = attended or [None] * len(lengths)
    for length, count in zip(lengths, seen, strict=True):
        rows = slice(start, start + length)
        own = [x[rows].double().transpose(0, 1) for x in (q, k, v)]
        repeats = own[0].shape[0] // own[1].shape[0]
        key, value = (x.repeat_interleave(repeats, dim=0) for x in own[1:])
        logits = own[0] @ key.transpose(1, 2) * (scale or 1 / math.sqrt(q.shape[-1]))
        if softcap is not None:
            logits = softcap * (logits / softcap).tanh()
        if bias is not None:
            logits = logits + bias[:, :length, :length].double()
        mask = allowed(length, causal, window, length if count is None else count)
        weights = logits.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        out.append((weights @ value).transpose(0, 1))
        start += length
    return torch.cat(out).float()


def allowed(
    length: int, causal: bool, window: tuple[int, int] | None, num_attended: int
) -> torch.Tensor:
    """Return which places see which, place by place."""
    mask = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(num_attended):
            is_seen = not (causal and j > i)
            if window is not None and window[0] >= 0 and j < i - window[0]:
                is_seen = False
            if window is not None and window[1] >= 0 and j > i + window[1]:
                is_seen = False
            mask[i, j] = is_seen
    return mask
