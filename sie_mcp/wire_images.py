"""Images in a body: bytes in MessagePack, base64 or a data URI in JSON. Nothing is fetched."""

import base64
import binascii
from typing import Annotated, Any

import pydantic
from pydantic import BeforeValidator, ConfigDict, PlainSerializer

_DATA_URI = "data:"
_URI_MARK = ";base64"
# What base64 for addresses writes instead.
_URL_SAFE = str.maketrans("-_", "+/")
_MAX_SCHEME = 12


def is_data_uri(text: str) -> bool:
    """Whether a text holds data itself; a scheme's case says nothing."""
    return text[: len(_DATA_URI)].lower() == _DATA_URI


def _as_bytes(value: Any) -> Any:
    """Return the bytes of base64, alone or in a data URI.

    Raises:
        ValueError: an address instead, or no base64.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if is_data_uri(text):
        head, comma, text = text.partition(",")
        if not comma or not head.rstrip().lower().endswith(_URI_MARK):
            raise ValueError("a data URI must hold base64, as data:image/png;base64,…")
    elif "://" in text[:_MAX_SCHEME]:
        raise ValueError("URLs are not fetched; send the image's bytes, or base64 of them")
    try:
        return base64.b64decode("".join(text.split()).translate(_URL_SAFE), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is no base64 ({error}); send the image's bytes in it") from error


def _as_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


ImageBytes = Annotated[
    bytes, BeforeValidator(_as_bytes), PlainSerializer(_as_base64, when_used="json")
]


class Image(pydantic.BaseModel):
    """An image file's content. `format` is taken from those who send it; the content decides."""

    model_config = ConfigDict(extra="forbid")

    data: ImageBytes
    format: str | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_content(cls, value: Any) -> Any:
        return {"data": value} if isinstance(value, str | bytes) else value


class DetectedObject(pydantic.BaseModel):
    """Something in an image: left, top, right and bottom of its box, in pixels of the image.

    They are those of the image as it is seen, turned upright as its EXIF data says.
    """

    model_config = ConfigDict(extra="forbid")

    label: str
    score: float
    bbox: list[float]


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) or value is None else [value]


# One may stand alone.
ImageList = Annotated[list[Image], BeforeValidator(_as_list)]
