"""Lay sequences end to end on a device. Knows nothing of models."""

from collections.abc import Sequence as Series

import numpy as np
import torch

from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prefix, Sequence, SequenceOutput


def pack(sequences: Series[Sequence], device: torch.device) -> PackedBatch:
    """Pack at least one sequence, its prefix before it; one host-to-device copy for all ids."""
    prefixes = list(dict.fromkeys(one.prefix for one in sequences if one.prefix is not None))
    lora_of = {one.prefix: one.lora for one in sequences}
    parts = [Sequence(prefix.input_ids, lora=lora_of[prefix]) for prefix in prefixes]
    parts += sequences
    lengths = tuple(len(part.input_ids) for part in parts)
    cu_seqlens = torch.from_numpy(np.cumsum((0, *lengths), dtype=np.int32))
    on_device = torch.from_numpy(_ids(parts, lengths)).to(device, non_blocking=True)
    place_of = {prefix: place for place, prefix in enumerate(prefixes)}
    prefix_of = tuple(-1 if one.prefix is None else place_of[one.prefix] for one in parts)
    return PackedBatch(
        input_ids=on_device[0],
        position_ids=on_device[1],
        token_type_ids=on_device[2],
        cu_seqlens=cu_seqlens.to(device, non_blocking=True),
        lengths=lengths,
        outputs=frozenset().union(*(sequence.outputs for sequence in sequences)),
        prompt_lengths=_unless_all_zero(tuple(one.num_prompt_tokens for one in parts)),
        attended=_attended(parts, lengths),
        prefix_of=prefix_of if prefixes else None,
        loras=tuple(one.lora for one in parts) if any(one.lora for one in parts) else None,
        extras=tuple(one.extra for one in parts),
    )


def share_prefix(
    rows: Series[np.ndarray], outputs: frozenset[str], min_shared: int = 16
) -> list[Sequence]:
    """Make sequences of token ids, what all of them begin with set apart as their prefix.

    Args:
        rows: int64 `(num_tokens,)` each, at least one token.
        outputs: What to compute for each.
        min_shared: A shorter beginning is not worth it.
    """
    shared = _num_shared(rows) if len(rows) > 1 else 0
    if shared < min_shared:
        return [Sequence(row, outputs=outputs) for row in rows]
    prefix = Prefix(rows[0][:shared])
    return [Sequence(row[shared:], outputs=outputs, prefix=prefix) for row in rows]


def _num_shared(rows: Series[np.ndarray]) -> int:
    """Count the tokens that all begin with; each keeps at least its last one."""
    shortest = min(len(row) for row in rows) - 1
    stacked = np.stack([row[:shortest] for row in rows])
    same = (stacked == stacked[0]).all(axis=0)
    return shortest if same.all() else int(same.argmin())


def _ids(parts: Series[Sequence], lengths: tuple[int, ...]) -> np.ndarray:
    """Return token ids, positions and token types, int64 `(3, num_tokens)`."""
    ids = np.empty((3, sum(lengths)), dtype=np.int64)
    start = 0
    for part, length in zip(parts, lengths, strict=True):
        end = start + length
        first = 0 if part.prefix is None else len(part.prefix.input_ids)
        ids[0, start:end] = part.input_ids
        ids[1, start:end] = np.arange(first, first + length)
        ids[2, start:end] = 0 if part.token_type_ids is None else part.token_type_ids
        start = end
    return ids


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
