"""A learned bias for the distance between two tokens, shared by all layers (T5, MPNet).

Source: Raffel et al. 2019, section 2.1: near distances have a bucket each, far ones share buckets
that widen logarithmically up to `max_distance`, everything beyond shares the last.
"""

import math

import torch
from torch import nn


class RelativeBias(nn.Module):
    """From a length to what is added to the attention scores, both directions apart."""

    def __init__(self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.table = nn.Embedding(num_buckets, num_heads)
        self.max_distance = max_distance

    def forward(self, length: int) -> torch.Tensor:
        """Return `(num_heads, length, length)`: row i holds what token i adds for each other."""
        places = torch.arange(length, device=self.table.weight.device)
        buckets = self._buckets(places[None, :] - places[:, None])
        bias: torch.Tensor = self.table(buckets)
        return bias.permute(2, 0, 1)

    def _buckets(self, distance: torch.Tensor) -> torch.Tensor:
        """Return the bucket of each signed distance, int64 of the same shape."""
        half = self.table.num_embeddings // 2
        num_exact = half // 2
        away = distance.abs()
        # The order of operations is the reference's: at a bucket's edge rounding decides.
        growth = torch.log(away.float() / num_exact) / math.log(self.max_distance / num_exact)
        # Near ones give log(0) = -inf here; they take the other branch below.
        far = num_exact + (growth * (half - num_exact)).clamp(min=0).long()
        bucket = torch.where(away < num_exact, away, far.clamp(max=half - 1))
        return bucket + (distance > 0).long() * half
