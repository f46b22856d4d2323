"""Attention whose queries share keys and values in groups, with rotary positions.

Source: Ainslie et al. 2023; norms on each head of queries and keys, Henry et al. 2020.
"""

from collections.abc import Callable

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers.attention import attention
from sie_mcp.adapters.layers.masks import Window
from sie_mcp.adapters.layers.rotary import Turns, rotate
from sie_mcp.adapters.layers.wide_linear import WideLinear


class GroupedAttention(nn.Module):
    """Projections around attention; queries, keys and values from one matrix multiplication."""

    def __init__(
        self,
        hidden_size: int,
        *,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        qkv_bias: bool,
        out_bias: bool,
        head_norm: Callable[[], nn.Module],
        scale: float | None = None,
        softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.heads = [num_heads, num_kv_heads, num_kv_heads]
        self.head_dim, self.scale, self.softcap = head_dim, scale, softcap
        self.qkv = WideLinear(hidden_size, sum(self.heads) * head_dim, bias=qkv_bias)
        self.out = nn.Linear(num_heads * head_dim, hidden_size, bias=out_bias)
        self.q_norm = head_norm()
        self.k_norm = head_norm()

    def forward(
        self,
        x: torch.Tensor,
        batch: PackedBatch,
        turns: Turns,
        *,
        causal: bool,
        window: Window,
    ) -> torch.Tensor:
        """Return the shape of x, `(num_tokens, hidden_size)`; the rest is as in `attention`."""
        qkv = self.qkv(x).view(len(x), -1, self.head_dim)
        q, k, v = torch.split(qkv, self.heads, dim=1)
        q, k = rotate(self.q_norm(q), turns, batch), rotate(self.k_norm(k), turns, batch)
        attended = attention(
            q.to(x.dtype),
            k.to(x.dtype),
            v.to(x.dtype),
            batch,
            causal=causal,
            window=window,
            scale=self.scale,
            softcap=self.softcap,
        )
        y: torch.Tensor = self.out(attended.flatten(1))
        return y
