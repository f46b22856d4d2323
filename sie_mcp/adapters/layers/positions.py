"""Positions of fairseq's models: they start past the padding token's id, and skip padding tokens.

Source: fairseq's make_positions, which RoBERTa and its relatives were trained with; transformers
does the same. Knows no model.
"""

from collections.abc import Mapping
from typing import Any

import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.errors import ModelLoadFailed

# What transformers assumes for these families where config.json is silent.
_DEFAULT_PADDING_ID = 1


def padding_id(config: Mapping[str, Any]) -> int:
    """Return the padding token's id, which is also the position of such a token.

    Raises:
        ModelLoadFailed: config.json says something that is no id.
    """
    value = config.get("pad_token_id", _DEFAULT_PADDING_ID)
    if not isinstance(value, int) or value < 0:
        raise ModelLoadFailed(f"config.json: pad_token_id {value!r} is no id, positions need one")
    return value


def positions_past(padding_id: int, batch: PackedBatch) -> torch.Tensor:
    """Return int64 `(num_tokens,)`: padding_id + 1, + 2, … in each sequence.

    A padding token in the middle of a text (someone wrote "<pad>") stays at padding_id and does not
    count for those after it.
    """
    counts_on = (batch.input_ids != padding_id).long()
    counted = counts_on.cumsum(0)
    starts = batch.cu_seqlens[:-1].long()
    if batch.longest is not None:  # Recorded: some sequences are empty, some tokens in none.
        starts = starts.clamp(max=batch.num_tokens - 1)
    before = counted[starts] - counts_on[starts]
    places = (counted - before[batch.segments]) * counts_on
    if batch.longest is not None:
        tokens = torch.arange(batch.num_tokens, device=places.device)
        places = places * (tokens < batch.cu_seqlens[-1])
    return places + padding_id
