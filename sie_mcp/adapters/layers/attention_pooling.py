"""Pooling by attention: one learnt query a sequence reads all of its tokens.

Source: Lee et al. 2019 (pooling by multihead attention), with the residual MLP that SigLIP puts
behind it; Zhai et al. 2023.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.layers.mlp import Mlp
from sie_mcp.adapters.layers.pooling import add_up


class AttentionPooling(nn.Module):
    """Packed hidden states in, one vector a sequence out."""

    def __init__(
        self, hidden_size: int, num_heads: int, intermediate_size: int, act: str, eps: float
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.probe = nn.Parameter(torch.empty(1, 1, hidden_size))
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=eps)
        self.mlp = Mlp(hidden_size, intermediate_size, act, has_bias=True)

    def forward(self, x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return `(num_seqs, hidden_size)` from hidden states `(num_tokens, hidden_size)`."""
        size = x.shape[-1]
        weights, biases = self.qkv.weight, self.qkv.bias
        q = nn.functional.linear(self.probe.view(1, size), weights[:size], biases[:size])
        kv = nn.functional.linear(x, weights[size:], biases[size:])
        heads = q.view(self.num_heads, -1), kv.view(len(x), 2, self.num_heads, -1)
        y = self.out(_read(*heads, batch).flatten(1))
        added: torch.Tensor = y + self.mlp(self.norm(y))
        return added


def _read(q: torch.Tensor, kv: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    """Return what a query reads of each sequence, `(num_seqs, num_heads, head_dim)`.

    Args:
        q: `(num_heads, head_dim)`.
        kv: `(num_tokens, 2, num_heads, head_dim)`: keys, then values.
        batch: Tells which token belongs where, and whether a kernel may run.
    """
    scale = q.shape[-1] ** -0.5
    kernels = usable("probes", kv, batch)
    if kernels is not None and q.shape[-1] <= kernels.MAX_HEAD_DIM:
        read: torch.Tensor = kernels.read(q, kv, batch.cu_seqlens, batch.num_seqs, scale)
        return read
    k, v = kv.unbind(1)
    scores = (k.float() * q.float()).sum(-1) * scale
    return _weighted_sum(scores, v.float(), batch).to(kv.dtype)


def _weighted_sum(scores: torch.Tensor, v: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    """Return each sequence's values weighted by the softmax of its scores.

    Args:
        scores: float32 `(num_tokens, num_heads)`.
        v: float32 `(num_tokens, num_heads, head_dim)`.
        batch: Tells which token belongs where.

    Returns:
        float32 `(num_seqs, num_heads, head_dim)`.
    """
    if min(batch.lengths) == batch.max_seqlen:
        shape = (batch.num_seqs, batch.max_seqlen)
        parts = torch.softmax(scores.view(*shape, -1), dim=1)
        return torch.einsum("snh,snhd->shd", parts, v.view(*shape, *v.shape[1:]))
    index = batch.segments[:, None].expand_as(scores)
    empty = scores.new_zeros(batch.num_seqs, scores.shape[1])
    highest = empty.fill_(float("-inf")).scatter_reduce(0, index, scores, "amax")
    exponents = (scores - highest[batch.segments]).exp()
    totals = add_up(exponents, batch)
    return add_up(v * exponents[..., None], batch) / totals[..., None]
