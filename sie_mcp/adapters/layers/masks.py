"""Which places of a padded block see which, and what is added to their scores.

Knows lengths and distances; no kernel and no model.
"""

from collections.abc import Callable

import torch

from sie_mcp.adapters.buckets import Bucket, KeyBlock

# How far a token may look to the left and right; None sees the whole sequence.
Window = tuple[int, int] | None
# From a bucket's length to a bias added to the scores, `(num_heads, length, length)`.
Bias = Callable[[int], torch.Tensor]


def make_mask(
    bucket: Bucket,
    q: torch.Tensor,
    causal: bool,
    window: Window,
    bias: Bias | None,
    *,
    is_written_out: bool,
) -> torch.Tensor | None:
    """Return what SDPA must be told: a boolean mask, or the bias with -inf where masked.

    None where nothing is masked, or only what a plain causal mask hides anyway, padding at the end,
    unless `is_written_out` asks for the causal mask too.
    """
    if causal and window is None and bias is None and not is_written_out:
        return None
    mask = _band(bucket.length, causal, window, q.device)
    if not bucket.all_seen:
        keys = bucket.key_mask[:, None, None, :]
        mask = keys if mask is None else keys & mask
    if bias is None:
        return mask
    added = bias(bucket.length).to(q.dtype)[None]
    return added if mask is None else added.masked_fill(~mask, float("-inf"))


def make_key_mask(block: KeyBlock, causal: bool, window: Window) -> torch.Tensor:
    """Return which keys of a block each query sees, `(num_seqs, 1, num_queries, num_keys)`."""
    left, right = window or (-1, -1)
    seen = block.is_real
    if causal:
        seen = seen & (block.distance <= 0)
    elif right >= 0:
        seen = seen & (block.distance <= right)
    if left >= 0:
        seen = seen & (block.distance >= -left)
    return seen.expand_as(block.distance)[:, None]


def _band(length: int, causal: bool, window: Window, device: torch.device) -> torch.Tensor | None:
    """Return which places see which, `(length, length)`; None where all see all."""
    left, right = window or (-1, -1)
    if causal:
        right = 0
    limits_left = 0 <= left < length - 1
    limits_right = 0 <= right < length - 1
    if not (limits_left or limits_right):
        return None
    places = torch.arange(length, device=device)
    distance = places[None, :] - places[:, None]
    seen = torch.ones(length, length, dtype=torch.bool, device=device)
    if limits_left:
        seen &= distance >= -left
    if limits_right:
        seen &= distance <= right
    return seen
