"""Attention whose scores are bent towards a limit before the softmax: softcap * tanh(x / softcap).

Source: Gemma Team 2024, section 2. SDPA cannot do it, so the scores of a block exist as a whole:
`num_seqs * num_heads * length**2` float32 numbers.
"""

import torch


def capped_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float | None,
    softcap: float,
) -> torch.Tensor:
    """Attend within each block.

    Args:
        q: `(num_seqs, num_heads, length, head_dim)`; k and v alike.
        mask: Boolean, true where seen, or added after the bend; as SDPA takes it.
        scale: Of the scores; None is 1 / sqrt(head_dim).
        softcap: No score is larger.

    Returns:
        The shape and dtype of q; scores and softmax are float32.
    """
    scores = q.float() @ k.float().transpose(-1, -2)
    scores = bend(scores * (scale or q.shape[-1] ** -0.5), softcap)
    if mask is None:
        return scores.softmax(dim=-1).to(v.dtype) @ v
    hidden = ~mask if mask.dtype == torch.bool else mask.isneginf()
    added = 0.0 if mask.dtype == torch.bool else mask.masked_fill(hidden, 0.0)
    weights = (scores + added).masked_fill(hidden, float("-inf")).softmax(dim=-1)
    # A place that sees nothing gets zero, as from SDPA.
    return weights.masked_fill(hidden, 0.0).to(v.dtype) @ v


def bend(x: torch.Tensor, softcap: float) -> torch.Tensor:
    """Return x where it is small, and never more than softcap."""
    return softcap * torch.tanh(x / softcap)
