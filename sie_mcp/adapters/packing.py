"""Lay sequences end to end on a device. Knows nothing of models."""

from collections.abc import Sequence as Series
from itertools import pairwise

import numpy as np
import torch

from sie_mcp.adapters.adapter import Laid, Outputs, PackedBatch, Prefix, Sequence, SequenceOutput
from sie_mcp.adapters.image_patches import Images
from sie_mcp.adapters.one_copy import joined_to_device, to_device, to_host
from sie_mcp.adapters.tiles import TILE_WIDTH, lay_out


def pack(
    sequences: Series[Sequence], device: torch.device, *, is_laid_out: bool = False
) -> PackedBatch:
    """Pack at least one sequence, its prefix before it; one host-to-device copy for all ids.

    All are texts, or all are images: `alike` says which go together. Where `is_laid_out` says so,
    what our own kernels and recorded passes read comes along.
    """
    prefixes, place_of = _prefixes(sequences)
    parts = [*prefixes, *sequences]
    lengths = tuple(len(part.input_ids) for part in parts)
    cu_seqlens = np.cumsum((0, *lengths), dtype=np.int32)
    ids = _ids(parts, cu_seqlens)
    laid, tiles = None, None
    if is_laid_out:
        layout = lay_out(lengths, cu_seqlens)
        ids_there, numbers = to_device([ids, layout.numbers], device)
        laid = Laid(ids_there, numbers, layout.size, layout.tile_rows)
        ends = numbers[: len(lengths) + 1]
        last = layout.num_ends + TILE_WIDTH * layout.num_tiles
        tiles = numbers[layout.num_ends : last].view(-1, TILE_WIDTH)
    else:
        ids_there, ends = (
            torch.from_numpy(one).to(device, non_blocking=True) for one in (ids, cu_seqlens)
        )
    return PackedBatch(
        input_ids=ids_there[0],
        position_ids=ids_there[1],
        token_type_ids=ids_there[2],
        cu_seqlens=ends,
        lengths=lengths,
        outputs=frozenset().union(*{sequence.outputs for sequence in sequences}),
        prompt_lengths=_unless_all_zero(tuple(one.num_prompt_tokens for one in parts)),
        attended=_attended(parts, lengths),
        prefix_of=_prefix_of(parts, place_of),
        loras=tuple(one.lora for one in parts) if any(one.lora for one in parts) else None,
        extras=tuple(one.extra for one in parts),
        images=_images(sequences, device),
        tiles=tiles,
        tile_rows=0 if laid is None else laid.tile_rows,
        laid=laid,
    )


def alike(sequences: Series[Sequence]) -> list[list[int]]:
    """Return the places of those that can be packed together: texts, then images.

    The towers for the two have nothing in common that one batch could share.
    """
    groups: tuple[list[int], list[int]] = ([], [])
    for place, one in enumerate(sequences):
        groups[one.image is not None].append(place)
    return [group for group in groups if group]


def _images(sequences: Series[Sequence], device: torch.device) -> Images | None:
    images = [one.image for one in sequences if one.image is not None]
    if not images:
        return None
    assert len(images) == len(sequences)
    values = joined_to_device([one.values for one in images], device)
    return Images(values, tuple(one.shape for one in images))


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


def _prefixes(sequences: Series[Sequence]) -> tuple[list[Sequence], dict[Prefix, int]]:
    """Return the beginnings to compute and the place of each; equal ones are one.

    Those of two requests are two objects, with the same tokens where both have the same query.
    """
    lora_of = {one.prefix: one.lora for one in sequences if one.prefix is not None}
    places: dict[tuple[bytes, int], int] = {}
    parts: list[Sequence] = []
    place_of = {}
    for prefix, lora in lora_of.items():
        key = (prefix.input_ids.tobytes(), id(lora))
        place_of[prefix] = places.setdefault(key, len(parts))
        if place_of[prefix] == len(parts):
            parts.append(Sequence(prefix.input_ids, lora=lora))
    return parts, place_of


def _num_shared(rows: Series[np.ndarray]) -> int:
    """Count the tokens that all begin with; each keeps at least its last one."""
    shortest = min(len(row) for row in rows) - 1
    stacked = np.stack([row[:shortest] for row in rows])
    same = (stacked == stacked[0]).all(axis=0)
    return shortest if same.all() else int(same.argmin())


def _ids(parts: Series[Sequence], cu_seqlens: np.ndarray) -> np.ndarray:
    """Return token ids, positions and token types, int64 `(3, num_tokens)`."""
    ids = np.zeros((3, cu_seqlens[-1]), dtype=np.int64)
    np.concatenate([part.input_ids for part in parts], out=ids[0])
    firsts = -cu_seqlens[:-1].astype(np.int64)
    if any(part.prefix is not None for part in parts):
        firsts += [0 if one.prefix is None else len(one.prefix.input_ids) for one in parts]
    ids[1] = np.arange(cu_seqlens[-1]) + np.repeat(firsts, np.diff(cu_seqlens))
    for part, start in zip(parts, cu_seqlens.tolist(), strict=False):
        if part.token_type_ids is not None:
            ids[2, start : start + len(part.input_ids)] = part.token_type_ids
    return ids


def _prefix_of(parts: Series[Sequence], place_of: dict[Prefix, int]) -> tuple[int, ...] | None:
    if not place_of:
        return None
    return tuple(-1 if one.prefix is None else place_of[one.prefix] for one in parts)


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
    return cut(outputs, Copies(outputs, is_pinned=False).arrived(), num_seqs)


class Copies:
    """All outputs' numbers on their way to the host, in their order.

    Args:
        outputs: Of a forward pass.
        is_pinned: The copies begin now; otherwise when they are waited for.
    """

    def __init__(self, outputs: Outputs, *, is_pinned: bool) -> None:
        values = [_plain(rows.values.detach()) for rows in outputs.values()]
        self._copies = to_host(values, is_pinned=is_pinned)

    def arrived(self) -> list[np.ndarray]:
        """Wait for all of them."""
        return self._copies()


def cut(outputs: Outputs, values: Series[np.ndarray], num_seqs: int) -> list[SequenceOutput]:
    """Return each sequence's part of what `on_host` gave."""
    results: list[SequenceOutput] = []
    for (name, rows), host in zip(outputs.items(), values, strict=True):
        parts = [host[start:end] for start, end in pairwise(rows.offsets[: num_seqs + 1])]
        if results:
            for result, part in zip(results, parts, strict=True):
                result[name] = part
        else:
            results = [{name: part} for part in parts]
    return results or [{} for _ in range(num_seqs)]


def _plain(values: torch.Tensor) -> torch.Tensor:
    """Return numbers of a type that numpy has."""
    return values.float() if values.dtype == torch.bfloat16 else values
