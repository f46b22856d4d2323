"""From token vectors to one vector a sequence, on packed data, accumulated in float32.

The modes and their order of concatenation are those of sentence-transformers' Pooling module.
"""

from collections.abc import Callable, Sequence

import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.recipe import PoolingMode

Pool = Callable[[torch.Tensor, PackedBatch, torch.Tensor], torch.Tensor]
_TINY = 1e-9


def pool(
    hidden_states: torch.Tensor,
    batch: PackedBatch,
    modes: Sequence[PoolingMode],
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Pool each sequence.

    Args:
        hidden_states: `(num_tokens, hidden_size)`.
        batch: Tells which token belongs where.
        modes: Concatenated in this order.
        kept: bool `(num_tokens,)`; tokens that count. None: all.

    Returns:
        float32 `(num_seqs, len(modes) * hidden_size)`. A sequence without a kept token is zero.
    """
    if kept is None and tuple(modes) == ("mean",):
        kernels = usable("pools", hidden_states, batch)
        if kernels is not None:
            mean: torch.Tensor = kernels.mean(hidden_states, batch.cu_seqlens, batch.num_seqs)
            return mean
    if kept is None and tuple(modes) == ("cls",):
        return hidden_states[batch.cu_seqlens[:-1]].float()
    x = hidden_states.float()
    if kept is None:
        kept = torch.ones(batch.num_tokens, dtype=torch.bool, device=x.device)
    return torch.cat([_POOLS[mode](x, batch, kept) for mode in modes], dim=-1)


def _sum(x: torch.Tensor, batch: PackedBatch, weights: torch.Tensor) -> torch.Tensor:
    return add_up(x * weights[:, None], batch)


def _count(batch: PackedBatch, weights: torch.Tensor) -> torch.Tensor:
    return add_up(weights[:, None], batch)


def add_up(rows: torch.Tensor, batch: PackedBatch, *, in_order: bool | None = None) -> torch.Tensor:
    """Return the sum of each sequence's rows, float32 `(num_seqs, …)`.

    Args:
        rows: float32 `(num_tokens, …)`.
        batch: Tells which row belongs where.
        in_order: One after another, so that sums are the same to the last bit each time; None: on
            CUDA, whose threads otherwise add in the order in which they come.
    """
    if rows.is_cuda if in_order is None else in_order:
        # The lengths are right: to have them checked would wait for the device.
        lengths = batch.cu_seqlens.diff()
        return torch.segment_reduce(rows, "sum", lengths=lengths, unsafe=True, initial=0.0)
    out = torch.zeros(batch.num_seqs, *rows.shape[1:], device=rows.device)
    return out.index_add_(0, batch.segments, rows)


def _mean(x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor) -> torch.Tensor:
    weights = kept.float()
    return _sum(x, batch, weights) / _count(batch, weights).clamp(min=_TINY)


def _mean_sqrt(x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor) -> torch.Tensor:
    weights = kept.float()
    return _sum(x, batch, weights) / _count(batch, weights).clamp(min=_TINY).sqrt()


def _weighted_mean(x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor) -> torch.Tensor:
    weights = (batch.position_ids + 1).float() * kept
    return _sum(x, batch, weights) / _count(batch, weights).clamp(min=_TINY)


def _max(x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor) -> torch.Tensor:
    masked = x.masked_fill(~kept[:, None], float("-inf"))
    index = batch.segments[:, None].expand_as(masked)
    out = torch.full((batch.num_seqs, x.shape[-1]), float("-inf"), device=x.device)
    out = out.scatter_reduce_(0, index, masked, "amax")
    return out.masked_fill(out == float("-inf"), 0.0)


def _first(x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor) -> torch.Tensor:
    return _at(x, batch, kept, "amin", batch.num_tokens)


def _last(x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor) -> torch.Tensor:
    return _at(x, batch, kept, "amax", -1)


def _at(
    x: torch.Tensor, batch: PackedBatch, kept: torch.Tensor, reduce: str, nowhere: int
) -> torch.Tensor:
    """Take the first or last kept token of each sequence."""
    places = torch.arange(batch.num_tokens, device=x.device).masked_fill(~kept, nowhere)
    chosen = torch.full((batch.num_seqs,), nowhere, device=x.device)
    chosen = chosen.scatter_reduce_(0, batch.segments, places, reduce)
    found = chosen != nowhere
    return x[chosen.masked_fill(~found, 0)] * found[:, None]


_POOLS: dict[PoolingMode, Pool] = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
