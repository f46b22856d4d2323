"""The largest weights of sparse vectors, chosen where they lie: ties go to the lower index.

Knows numbers alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# Rows whose keys, eight bytes an entry, exist at once: 32 of 30,522 are 8 MB.
_ROWS = 32
# More are as good as all: learned sparse vectors have a few hundred.
MOST = 1_024


@dataclass(frozen=True, slots=True)
class Limited:
    """How many weights of a sequence's sparse vector are wanted: the `extra` of it."""

    max_active_dims: int


def common_limit(extras: Sequence[object]) -> int | None:
    """Return how many weights are enough for every sequence of a batch; None: not known, or many.

    What a sequence with a lower limit has too many is left to whoever builds its answer.
    """
    most = 0
    for one in extras:
        if not isinstance(one, Limited) or one.max_active_dims > MOST:
            return None
        most = max(most, one.max_active_dims)
    return most or None


def heaviest(weights: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose the largest of each row; nothing is copied and nothing waited for.

    Args:
        weights: float32 `(num_rows, dims)`, at least 0; what is no number counts as the largest.
        count: At most dims.

    Returns:
        int64 indices `(num_rows, count)`, ascending, and the weights there; zeros where a row has
        fewer.
    """
    rows = [_choose(block, count) for block in torch.split(weights, _ROWS)]
    indices = torch.cat(rows) if rows else weights.new_zeros((0, count), dtype=torch.int64)
    return indices, weights.gather(1, indices)


def _choose(weights: torch.Tensor, count: int) -> torch.Tensor:
    # The bits of numbers from zero on are ordered as they are; a place is in no two keys.
    last = weights.shape[1] - 1
    places = torch.arange(last, -1, -1, device=weights.device)
    keys = (weights.abs().view(torch.int32).to(torch.int64) << 32) | places
    chosen = keys.topk(count, dim=1, sorted=False).values
    indices: torch.Tensor = (last - (chosen & 0xFFFFFFFF)).sort(dim=1).values
    return indices
