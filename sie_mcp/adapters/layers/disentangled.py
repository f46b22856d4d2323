"""Disentangled attention: content meets content, and each meets the distance between the two.

Source: He et al. 2021 (DeBERTa). The added scores depend on every pair of tokens, so no kernel for
packed sequences takes them: always one SDPA call for each bucket of similar lengths.
"""

import torch
from torch.nn import functional

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.buckets import Bucket
from sie_mcp.adapters.layers.attention import from_block, to_block
from sie_mcp.adapters.layers.distances import Distances


def disentangled_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: PackedBatch,
    *,
    distances: Distances,
    distance_keys: torch.Tensor | None,
    distance_queries: torch.Tensor | None,
) -> torch.Tensor:
    """Attend within each sequence of the batch.

    Args:
        q: `(num_tokens, num_heads, head_dim)`; as are k and v.
        k: Keys of the content.
        v: Values; distances have none.
        batch: Tells where each sequence starts.
        distances: Which row of the following stands for which pair.
        distance_keys: `(num_rows, num_heads, head_dim)`, met by queries (content to position).
        distance_queries: The same, met by keys (position to content).

    Returns:
        `(num_tokens, num_heads, head_dim)`.
    """
    num_terms = 1 + (distance_keys is not None) + (distance_queries is not None)
    scale = (q.shape[-1] * num_terms) ** -0.5
    # Scaled where it is small, and before a product could overflow half precision.
    keys = None if distance_keys is None else (distance_keys * scale).permute(1, 2, 0)
    queries = None if distance_queries is None else (distance_queries * scale).permute(1, 2, 0)
    out = torch.empty_like(q)
    for bucket in batch.buckets:
        block_q, block_k = to_block(q, bucket), to_block(k, bucket)
        bias = _bias(block_q, block_k, distances.between(bucket.length), keys, queries)
        attended = functional.scaled_dot_product_attention(
            block_q, block_k, to_block(v, bucket), attn_mask=_masked(bias, bucket), scale=scale
        )
        out[bucket.rows] = from_block(attended, bucket)
    return out


def _bias(
    q: torch.Tensor,
    k: torch.Tensor,
    between: torch.Tensor,
    keys: torch.Tensor | None,
    queries: torch.Tensor | None,
) -> torch.Tensor:
    """Return what distances add to the scores, `(num_seqs, num_heads, length, length)`.

    Args:
        q: A block, `(num_seqs, num_heads, length, head_dim)`; as is k.
        k: Keys of the content.
        between: Rows `(length, length)`, by query and key.
        keys: `(num_heads, head_dim, num_rows)`.
        queries: The same.
    """
    shape = (*q.shape[:3], q.shape[2])
    bias = torch.zeros(shape, dtype=q.dtype, device=q.device)
    if keys is not None:
        bias += torch.gather(q @ keys, -1, between.expand(shape))
    if queries is not None:
        seen_from_keys = torch.gather(k @ queries, -1, between.T.expand(shape))
        bias += seen_from_keys.transpose(-1, -2)
    return bias


def _masked(bias: torch.Tensor, bucket: Bucket) -> torch.Tensor:
    if bucket.all_seen:
        return bias
    return bias.masked_fill_(~bucket.key_mask[:, None, None, :], float("-inf"))
