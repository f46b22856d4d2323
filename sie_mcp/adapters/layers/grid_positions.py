"""Positions of patches of images of any shape, read between the rows of a square table.

Linear between neighbours, as torch interpolates with antialiasing; all images of a batch at once,
so that their number costs no launches. Knows no model.
"""

import math

import torch

from sie_mcp.adapters.adapter import PackedBatch


def grid_positions(table: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    """Return a vector a patch, `(num_tokens, hidden_size)`, in the table's precision.

    Args:
        table: `(side * side, hidden_size)`, row by row.
        batch: Of images, each of whose tokens is a patch.
    """
    assert batch.images is not None
    side = math.isqrt(len(table))
    shapes = torch.tensor(batch.images.shapes, dtype=torch.float64)
    steps = (side / shapes).float()
    # Both by image, then by patch: how many patches wide, and the steps down and across.
    numbers = torch.cat((shapes[:, 1:].float(), steps), 1)
    widths, *steps_of = numbers.to(table.device, non_blocking=True)[batch.segments].unbind(1)
    columns = widths.long()
    rows = batch.position_ids // columns
    down, across = (
        _weights(place, step, side)
        for place, step in zip((rows, batch.position_ids - rows * columns), steps_of, strict=True)
    )
    weights = (down[:, :, None] * across[:, None, :]).flatten(1)
    if table.dtype == torch.float32:
        return weights @ table
    # What a weight loses by rounding counts too: as exact as in float32 at a tenth of the time.
    first = weights.to(table.dtype)
    rest = (weights - first).to(table.dtype)
    return torch.cat((first, rest), 1) @ torch.cat((table, table))


def _weights(places: torch.Tensor, steps: torch.Tensor, side: int) -> torch.Tensor:
    """Return how much each of the table's places counts at each patch's, float32 `(…, side)`.

    Where there are fewer patches than places, all that one stands for count.

    Args:
        places: int64 `(num_tokens,)`, a patch's own row or column.
        steps: float32 `(num_tokens,)`, places from one patch to the next.
        side: Places of the table.
    """
    centres = (places + 0.5) * steps - 0.5
    known = torch.arange(side, dtype=torch.float32, device=places.device)
    distances = (known - centres[:, None]).abs() / steps.clamp(min=1.0)[:, None]
    weights = (1.0 - distances).clamp(min=0.0)
    return weights / weights.sum(dim=1, keepdim=True)
