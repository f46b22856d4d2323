"""Quantised numbers back to float32. Knows arrays, no files."""

import numpy as np

BLOCK = 32
_BLOCK_BYTES = 2 + BLOCK // 2


def from_q4_0(packed: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Undo ggml's q4_0, uint8 in, float32 `(rows, columns)` out.

    A block of 32 is a float16 scale and 16 bytes: the low halves are its first 16 values, the high
    halves its last, each counted from -8.
    """
    blocks = packed.reshape(rows * columns // BLOCK, _BLOCK_BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    halves = np.concatenate([blocks[:, 2:] & 0xF, blocks[:, 2:] >> 4], axis=1)
    values: np.ndarray = (halves.astype(np.float32) - 8.0) * scales
    return values.reshape(rows, columns)


def from_scaled(stored: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Undo a linear quantisation with one scale and one zero point."""
    values: np.ndarray = (stored.astype(np.float32) - zero.astype(np.float32)) * scale
    return values


def interleaved_to_halves(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Reorder rows of a query or key matrix from pairs to halves.

    GGUF keeps the two numbers that rotary positions turn together side by side; checkpoints of
    Llama keep one in the first half of a head and one in the second.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)
