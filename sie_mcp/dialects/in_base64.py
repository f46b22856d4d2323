"""Vectors that answers hold as base64: made a row at a time, when the answer is written."""

import base64
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pydantic
from pydantic import PlainSerializer, SerializationInfo


@dataclass(frozen=True, slots=True)
class InBase64:
    """A vector whose answer holds base64 of little-endian float32."""

    vector: np.ndarray

    def __str__(self) -> str:
        """Return the base64."""
        data = np.ascontiguousarray(self.vector, dtype=np.dtype("<f4"))
        return base64.b64encode(data.data).decode("ascii")


def _written(value: InBase64 | np.ndarray, info: SerializationInfo) -> Any:
    if isinstance(value, InBase64):
        return str(value)
    return value.tolist() if info.mode_is_json() else value


Base64 = Annotated[
    InBase64,
    pydantic.InstanceOf(),
    PlainSerializer(_written),
    pydantic.WithJsonSchema({"type": "string"}),
]
NumbersOrBase64 = Annotated[
    Annotated[InBase64, pydantic.InstanceOf()] | Annotated[np.ndarray, pydantic.InstanceOf()],
    PlainSerializer(_written),
    pydantic.WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "array"}]}},
            ]
        }
    ),
]
