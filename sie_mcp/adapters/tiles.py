"""A packed batch's queries cut into tiles, so that a kernel starts no program for nothing."""

from collections.abc import Sequence

import numpy as np

# Most texts are short: median 60 tokens in what searches embed.
TILE_ROWS = 64


def make_tiles(lengths: Sequence[int]) -> np.ndarray:
    """Return int32 `(num_tiles, 2)`: a sequence, and the token of it that a tile begins with."""
    counts = (np.asarray(lengths, dtype=np.int32) + (TILE_ROWS - 1)) // TILE_ROWS
    tiles = np.empty((int(counts.sum()), 2), dtype=np.int32)
    tiles[:, 0] = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    tiles[:, 1] = (np.arange(len(tiles)) - before) * TILE_ROWS
    return tiles
