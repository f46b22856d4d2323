"""The argument that is texts with pictures beside them, and which arguments go with pictures."""

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.inputs import MAX_TEXTS, TextItem, as_item


class Product(TextItem):
    """A text and its picture: a path in the allowed folders, base64 or a data URI."""

    image: str | None = None


_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {one: {"type": "string"} for one in ("id", "text", "image")},
            "required": ["text"],
        },
    ]
}
Products = Annotated[
    list[Annotated[Product, BeforeValidator(as_item), WithJsonSchema(_SCHEMA)]],
    Field(
        description="Texts, or {id, text, image}; image: a path or base64.",
        json_schema_extra={"maxItems": MAX_TEXTS},
    ),
]


def check_pictures(image_model: str, image_column: str, *, has_images: bool, path: str) -> None:
    """Refuse pictures that nobody would look at, and a model without any.

    Raises:
        InvalidInput: says what is missing.
    """
    if (image_column or has_images) and not image_model:
        raise InvalidInput("images are given but no image_model; name one, or auto")
    if image_column and not path:
        raise InvalidInput("image_column goes with path; in texts send {text, image}")
    if image_model and path and not image_column:
        raise InvalidInput("image_model: say in image_column which column names the images")
