"""What transformers is given for our sequences: padded, with a mask."""

from collections.abc import Sequence as Series

import torch
from torch import nn

from sie_mcp.adapters.adapter import Sequence


def padded(
    model: nn.Module, sequences: Series[Sequence], multiple: int = 1
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the reference's inputs, and which places are real, `(num_seqs, longest)`."""
    longest = max(len(one.input_ids) for one in sequences)
    longest = -(-longest // multiple) * multiple
    ids = torch.full((len(sequences), longest), model.config.pad_token_id or 0)
    types = torch.zeros_like(ids)
    mask = torch.zeros_like(ids)
    for row, one in enumerate(sequences):
        length = len(one.input_ids)
        ids[row, :length] = torch.from_numpy(one.input_ids)
        mask[row, :length] = 1
        if one.token_type_ids is not None:
            types[row, :length] = torch.from_numpy(one.token_type_ids)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = types
    return inputs, mask.bool()
