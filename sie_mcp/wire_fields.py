"""What every body of the wire contract uses: arrays, valid text, states of models."""

from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from pydantic import AfterValidator, BeforeValidator, PlainSerializer

ModelState = Literal["available", "loading", "loaded", "host", "failed"]


def _as_array(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else np.asarray(value)


Array = Annotated[
    np.ndarray,
    pydantic.InstanceOf(),
    BeforeValidator(_as_array),
    PlainSerializer(lambda array: array.tolist(), when_used="json"),
    pydantic.WithJsonSchema(
        {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "array"}]}}
    ),
]


def _valid_unicode(value: str) -> str:
    """Refuse half of a surrogate pair: JSON can smuggle one in, and no tokenizer takes it."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"holds half of a surrogate pair at position {error.start}; send valid Unicode"
        ) from error
    return value


Text = Annotated[str, AfterValidator(_valid_unicode)]
NonNegative = Annotated[float, pydantic.Field(ge=0.0, allow_inf_nan=False)]
