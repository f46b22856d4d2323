"""Vectors for programs: rows of a file, or entries of a result."""

import base64
from typing import Literal

import numpy as np

from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import Inputs
from sie_mcp.tools.outputs import ColumnType, write_new, write_rows
from sie_mcp.tools.result import Result
from sie_mcp.tools.vectors import Vectors

ENDINGS = (".npy", ".jsonl", ".parquet")
_COLUMNS: dict[str, ColumnType] = {
    "index": "int",
    "id": "text",
    "source": "text",
    "vector": "vector",
}
# Five digits keep cosines to about 1e-4; each digit more costs tokens or bytes.
DIGITS = 5
VectorFormat = Literal["json", "base64_float16"]


class Vector(Result):
    """A text's vector: numbers, or little-endian float16 in base64."""

    index: int
    id: str | None = None
    source: str | None = None
    values: list[float] | None = None
    base64: str | None = None


def as_entries(vectors: Vectors, inputs: Inputs, form: VectorFormat) -> list[Vector]:
    """Make an entry of each vector."""
    return [
        Vector(
            index=inputs.indices[place],
            id=inputs.items[place].id,
            source=inputs.source(place),
            values=_digits(values) if form == "json" else None,
            base64=_float16(values) if form == "base64_float16" else None,
        )
        for place, values in zip(vectors.kept, vectors.values, strict=True)
    ]


def write_vectors(path: AllowedPath, vectors: Vectors, inputs: Inputs) -> list[int]:
    """Write a file whole or not at all; return the shape of what is in it.

    A .npy file is float32 with a row for each text, or row of the file they came from: NaN where
    there is no vector. The others have a row for each vector.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if path.ending == ".npy":
        rows = np.full(
            (len(inputs.items) + inputs.num_blank, vectors.values.shape[1]), np.nan, np.float32
        )
        rows[[inputs.indices[place] for place in vectors.kept]] = vectors.values
        write_new(path, lambda file: np.save(file, rows, allow_pickle=False))
        return list(rows.shape)
    write_rows(
        path,
        _COLUMNS,
        (
            {
                "index": inputs.indices[place],
                "id": inputs.items[place].id,
                "source": inputs.sources[place] if inputs.sources else None,
                "vector": values.tolist(),
            }
            for place, values in zip(vectors.kept, vectors.values, strict=True)
        ),
    )
    return list(vectors.values.shape)


def _digits(values: np.ndarray) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


def _float16(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f2").tobytes()).decode()
