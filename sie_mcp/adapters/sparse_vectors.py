"""What every kind of sparse vector shares: which parameters make sense, and the answer's form."""

import numpy as np

from sie_mcp import wire
from sie_mcp.errors import InvalidInput


def check_sparse(params: wire.EncodeParams) -> None:
    """Refuse parameters that a sparse vector has no meaning for.

    Raises:
        InvalidInput: dimensions, or a dtype of packed or whole numbers.
    """
    if params.options.dimensions is not None:
        raise InvalidInput(
            "dimensions does not apply to sparse vectors; max_active_dims keeps the heaviest"
        )
    if params.output_dtype not in ("float32", "float16"):
        raise InvalidInput(
            f"output_dtype {params.output_dtype} does not apply to sparse vectors; "
            "use float32 or float16"
        )


def make_sparse(
    indices: np.ndarray, values: np.ndarray, dims: int, params: wire.EncodeParams
) -> wire.Sparse:
    """Build the answer from ascending indices, the heaviest only where that was asked."""
    most = params.options.max_active_dims
    if most is not None and most < len(values):
        # Ties go to the lower index: the sort is stable.
        kept = np.sort(np.argsort(-values, kind="stable")[:most])
        indices, values = indices[kept], values[kept]
    return wire.Sparse(
        dims=dims,
        dtype=params.output_dtype,
        indices=indices,
        values=values.astype(params.output_dtype),
    )
