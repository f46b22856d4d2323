"""Lay sequences end to end on a device. Knows nothing of models."""

from collections.abc import Sequence as Series

import numpy as np
import torch

from sie_mcp.adapters.adapter import Outputs, PackedBatch, Sequence, SequenceOutput


def pack(sequences: Series[Sequence], device: torch.device) -> PackedBatch:
    """Pack at least one sequence; one host-to-device copy for all ids."""
    lengths = tuple(sequence.num_tokens for sequence in sequences)
    num_tokens = sum(lengths)
    ids = np.empty((3, num_tokens), dtype=np.int64)
    start = 0
    for sequence, length in zip(sequences, lengths, strict=True):
        end = start + length
        ids[0, start:end] = sequence.input_ids
        ids[1, start:end] = np.arange(length)
        ids[2, start:end] = 0 if sequence.token_type_ids is None else sequence.token_type_ids
        start = end
    on_device = torch.from_numpy(ids).to(device, non_blocking=True)
    cu_seqlens = torch.from_numpy(np.cumsum((0, *lengths), dtype=np.int32))
    return PackedBatch(
        input_ids=on_device[0],
        position_ids=on_device[1],
        token_type_ids=on_device[2],
        cu_seqlens=cu_seqlens.to(device, non_blocking=True),
        lengths=lengths,
        outputs=frozenset().union(*(sequence.outputs for sequence in sequences)),
        prompt_lengths=_unless_all_zero(tuple(one.num_prompt_tokens for one in sequences)),
        attended=_attended(sequences, lengths),
    )


def _unless_all_zero(counts: tuple[int, ...]) -> tuple[int, ...] | None:
    return counts if any(counts) else None


def _attended(sequences: Series[Sequence], lengths: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the visible tokens of each sequence; None where all are visible."""
    if all(sequence.num_attended is None for sequence in sequences):
        return None
    return tuple(
        length if sequence.num_attended is None else sequence.num_attended
        for sequence, length in zip(sequences, lengths, strict=True)
    )


def unpack(outputs: Outputs, num_seqs: int) -> list[SequenceOutput]:
    """Copy outputs to the host and cut them by sequence; waits for the device."""
    results: list[SequenceOutput] = [{} for _ in range(num_seqs)]
    for name, rows in outputs.items():
        values = rows.values.detach()
        if values.dtype == torch.bfloat16:
            values = values.float()
        host = values.cpu().numpy()
        for index, result in enumerate(results):
            result[name] = host[rows.offsets[index] : rows.offsets[index + 1]]
    return results
