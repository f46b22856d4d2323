"""Sequences of similar length as padded blocks, for kernels that cannot read a packed batch.

Pure index arithmetic: knows lengths, no values.
"""

from dataclasses import dataclass

import numpy as np
import torch

# A bucket's shortest sequence has at least this share of the longest one's tokens.
MIN_BUCKET_FILL = 0.8
# From here on a CPU computes each length by itself in less time than it copies and masks blocks:
# 200-word passages take 10 % less in float32, 8 % less in bfloat16.
EXACT_FROM = 96


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sequences of similar length, seen as a padded block `(num_seqs, length)`.

    Attributes:
        members: Which sequences of the batch, ascending.
        length: Of the longest one.
        is_full: All have that length: no padding.
        rows: The tokens of the bucket in the packed batch; a slice where they lie together.
        gather: For each place of the block the token to put there, `(num_seqs * length,)`.
        places: The places that hold real tokens, in the order of `rows`.
        all_seen: Every place can be attended to.
        key_mask: Which places can be attended to, `(num_seqs, length)`.
    """

    members: tuple[int, ...]
    num_seqs: int
    length: int
    is_full: bool
    all_seen: bool
    rows: slice | torch.Tensor
    gather: torch.Tensor
    places: torch.Tensor
    key_mask: torch.Tensor


def make_buckets(
    lengths: tuple[int, ...],
    attended: tuple[int, ...],
    device: torch.device,
    *,
    min_fill: float = MIN_BUCKET_FILL,
    exact_from: int | None = None,
) -> tuple[Bucket, ...]:
    """Group sequences by length, longest first; `attended` counts each one's visible tokens.

    With a `min_fill` of 1 a bucket's sequences have one length, and so have those of `exact_from`
    tokens or more.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    starts = np.cumsum((0, *lengths))
    groups: list[list[int]] = []
    for index in order:
        is_exact = exact_from is not None and bool(groups) and lengths[groups[-1][0]] >= exact_from
        fill = 1.0 if is_exact else min_fill
        if groups and lengths[index] >= fill * lengths[groups[-1][0]]:
            groups[-1].append(index)
        else:
            groups.append([index])
    return tuple(_make_bucket(sorted(group), lengths, attended, starts, device) for group in groups)


def _make_bucket(
    group: list[int],
    lengths: tuple[int, ...],
    attended: tuple[int, ...],
    starts: np.ndarray,
    device: torch.device,
) -> Bucket:
    own = np.array([lengths[index] for index in group])
    first = starts[group]
    length = int(own.max())
    places = np.arange(length)[None, :]
    real = places < own[:, None]
    seen = places < np.array([attended[index] for index in group])[:, None]
    gather = np.where(real, first[:, None] + places, first[:, None])
    rows = gather[real]
    together = len(rows) == rows[-1] - rows[0] + 1
    return Bucket(
        members=tuple(group),
        num_seqs=len(group),
        length=length,
        is_full=bool(real.all()),
        all_seen=bool(seen.all()),
        rows=slice(int(rows[0]), int(rows[-1]) + 1) if together else _on(rows, device),
        gather=_on(gather.ravel(), device),
        places=_on(np.flatnonzero(real), device),
        key_mask=_on(seen, device),
    )


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """What the sequences of one bucket see where each has a prefix before it.

    Attributes:
        length: Keys of the one that sees most.
        gather: For each place of the block the key to put there, among those of all sequences laid
            end to end, `(num_seqs * length,)`.
        is_real: Which places hold keys, `(num_seqs, 1, length)`.
        distance: Key's position minus query's, `(num_seqs, bucket.length, length)`.
    """

    length: int
    gather: torch.Tensor
    is_real: torch.Tensor
    distance: torch.Tensor


def make_key_block(
    bucket: Bucket, lengths: tuple[int, ...], prefix_of: tuple[int, ...], device: torch.device
) -> KeyBlock:
    """Lay out the keys of a bucket: the prefix's, then the sequence's own."""
    before = np.array([0 if one < 0 else lengths[one] for one in prefix_of])
    seen = before + np.array(lengths)
    starts = np.cumsum((0, *seen))[list(bucket.members)][:, None]
    own, shift = seen[list(bucket.members)], before[list(bucket.members)]
    places = np.arange(int(own.max()))[None, :]
    is_real = places < own[:, None]
    gather = np.where(is_real, starts + places, starts)
    queries = shift[:, None] + np.arange(bucket.length)[None, :]
    return KeyBlock(
        length=places.shape[1],
        gather=_on(gather.ravel(), device),
        is_real=_on(is_real[:, None, :], device),
        distance=_on(places[:, None, :] - queries[:, :, None], device),
    )


def _on(array: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
