"""Numbers of a packed batch that kernels and recorded passes read on the device: pure arithmetic.

Queries are cut into tiles, so that a kernel starts no program for nothing. Passes are recorded for
a few sizes; what says where sequences lie is laid out for the size above a batch, so that it only
has to be copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Tokens that a pass can be recorded for.
SIZES = (
    *(16, 32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096),
    *(6144, 8192, 10240, 12288, 14336, 16384),
    *(20480, 24576, 32768, 40960, 49152, 57344, 65536),
)
# Numbers of a tile.
TILE_WIDTH = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """Where sequences and tiles lie, in one array of int32.

    Attributes:
        numbers: The ends of sequences, `num_ends`, then tiles as `make_tiles` gives them. Those
            behind `num_seqs` and `num_tiles` are empty ones.
        size: What it is laid out for; None: for the batch alone.
        tile_rows: Queries of a tile.
    """

    numbers: np.ndarray
    num_ends: int
    num_tiles: int
    size: int | None
    tile_rows: int


def max_seqs(size: int) -> int:
    """Return how many sequences a recorded pass takes."""
    return max(size // 8, 4)


def lay_out(lengths: Sequence[int], cu_seqlens: np.ndarray) -> Layout:
    """Lay out a batch for the smallest size that it fits, or else for itself."""
    num_seqs, num_tokens = len(lengths), int(cu_seqlens[-1])
    rows = tile_rows(num_tokens / num_seqs)
    tiles = make_tiles(lengths, rows)
    fitting = (one for one in SIZES if num_tokens <= one and num_seqs <= max_seqs(one))
    size = next(fitting, None)
    ends, places = num_seqs + 1, len(tiles)
    if size is not None:
        ends, places = max_seqs(size) + 1, size // rows + max_seqs(size)
    numbers = np.empty(ends + TILE_WIDTH * places, dtype=np.int32)
    numbers[: num_seqs + 1] = cu_seqlens
    numbers[num_seqs + 1 : ends] = num_tokens
    own = numbers[ends:].reshape(-1, TILE_WIDTH)
    own[: len(tiles)] = tiles
    own[len(tiles) :] = 0  # Of a sequence without tokens.
    return Layout(numbers, ends, len(tiles), size, rows)


def tile_rows(mean_tokens: float) -> int:
    """Return how many queries a tile has where sequences are so long."""
    if mean_tokens <= 16:
        return 16
    if mean_tokens <= 40:
        return 32
    return 64 if mean_tokens <= 192 else 128


def make_tiles(lengths: Sequence[int], rows: int) -> np.ndarray:
    """Return int32 `(num_tiles, 3)`: where a tile's sequence starts and ends, its own first token.

    All are tokens of the batch.
    """
    sizes = np.asarray(lengths, dtype=np.int32)
    ends = np.cumsum(sizes, dtype=np.int32)
    counts = (sizes + (rows - 1)) // rows
    last = np.cumsum(counts, dtype=np.int32)
    tiles = np.empty((int(last[-1]), TILE_WIDTH), dtype=np.int32)
    tiles[:, 0] = np.repeat(ends - sizes, counts)
    tiles[:, 1] = np.repeat(ends, counts)
    tiles[:, 2] = np.arange(len(tiles)) * rows
    tiles[:, 2] += np.repeat(ends - sizes - (last - counts) * rows, counts)
    return tiles
