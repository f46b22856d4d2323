"""Pooling by attention: one learnt query a sequence reads all of its tokens.

Source: Lee et al. 2019 (pooling by multihead attention), with the residual MLP that SigLIP puts
behind it; Zhai et al. 2023.
"""

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
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
        k, v = kv.view(len(x), 2, self.num_heads, -1).unbind(1)
        q = q.view(1, self.num_heads, -1)
        scores = (k.float() * q.float()).sum(-1) * k.shape[-1] ** -0.5
        pooled = _weighted_sum(scores, v.float(), batch).to(x.dtype).flatten(1)
        y = self.out(pooled)
        added: torch.Tensor = y + self.mlp(self.norm(y))
        return added


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
