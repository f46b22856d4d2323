"""From a float vector to the dtype a caller asked for.

Source: bits, and whole numbers over given ranges, as sentence-transformers' quantize_embeddings.
Ranges are never taken from a batch: the same text would get other numbers beside other texts.
Without ranges each vector is divided by a scale of its own, which no cosine notices.
"""

import numpy as np

from sie_mcp import wire
from sie_mcp.errors import InvalidInput

_STEPS = 255
_LARGEST = 127


def check_ranges(params: wire.EncodeParams, dims: int) -> None:
    """Check the given ranges against the vector they are for.

    Raises:
        InvalidInput: not `dims` numbers each, not finite, or none that is wider than zero.
    """
    if params.options.quantization_ranges is None:
        return
    if params.output_dtype not in ("int8", "uint8"):
        raise InvalidInput("quantization_ranges apply to output_dtype int8 and uint8 only")
    least, greatest = params.options.quantization_ranges
    if len(least) != dims or len(greatest) != dims:
        raise InvalidInput(
            f"quantization_ranges need {dims} numbers in each row, they have {len(least)} "
            f"and {len(greatest)}"
        )
    if not np.isfinite([least, greatest]).all() or not np.less(least, greatest).all():
        raise InvalidInput("quantization_ranges: each least value must be under its greatest")


def convert(vector: np.ndarray, params: wire.EncodeParams) -> wire.Dense:
    """Return float32 `(dims,)` as the dtype asked for, itself where that is float32.

    Bits are packed, eight a byte.
    """
    dtype = params.output_dtype
    values, scale = vector, None
    if dtype == "float16":
        values = vector.astype(np.float16)
    elif dtype == "float32":
        pass
    elif dtype in ("binary", "ubinary"):
        # Most significant bit first.
        values = np.packbits(vector > 0)
        if dtype == "binary":
            values = (values.astype(np.int16) - 128).astype(np.int8)
    elif params.options.quantization_ranges is not None:
        values = _over_ranges(vector, *params.options.quantization_ranges)
        if dtype == "int8":
            values = (values.astype(np.int16) - 128).astype(np.int8)
    else:
        largest = float(np.abs(vector).max(initial=0.0))
        scale = largest / _LARGEST if largest else 1.0
        values = np.rint(vector / scale).astype(np.int16)
        values = values.astype(np.int8) if dtype == "int8" else (values + 128).astype(np.uint8)
    return wire.of_ours(
        wire.Dense, {"dims": len(vector), "dtype": dtype, "values": values, "scale": scale}
    )


def _over_ranges(vector: np.ndarray, least: list[float], greatest: list[float]) -> np.ndarray:
    """Return which of 256 equal steps each number is in; what is outside takes the nearest."""
    starts, ends = np.array(least, np.float32), np.array(greatest, np.float32)
    return ((vector - starts) / ((ends - starts) / _STEPS)).clip(0, _STEPS).astype(np.uint8)
