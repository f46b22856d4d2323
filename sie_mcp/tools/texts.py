"""Texts as models send them: strings, or objects with an id; checked, with errors that help."""

from collections.abc import Sequence
from typing import Annotated

import pydantic
from pydantic import ConfigDict, Field

from sie_mcp import wire
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext

MAX_INLINE_TEXTS = 1_000
MAX_FILE_TEXTS = 10_000


class TextItem(pydantic.BaseModel):
    """A text with the caller's own id."""

    model_config = ConfigDict(extra="forbid")

    text: str
    id: str | None = None


Texts = Annotated[
    list[str | TextItem], Field(description='Texts: ["…"] or [{"id": "…", "text": "…"}]')
]
ModelName = Annotated[
    str, Field(description="Leave out for the default; names: list_models, or a hub id")
]


def to_items(
    texts: Sequence[str | TextItem], name: str, context: ToolContext, *, most: int = MAX_INLINE_TEXTS
) -> list[wire.Item]:
    """Check texts and return them as items.

    Raises:
        InvalidInput: none, too many, an empty or a too long one; names the argument and its place.
    """
    if not texts:
        raise InvalidInput(f"{name} is empty; send at least one text")
    if len(texts) > most:
        raise InvalidInput(
            f"{name} has {len(texts):,} texts, the limit is {most:,}; send them in several calls"
            + (", or put them in a file" if most < MAX_FILE_TEXTS else "")
        )
    for index, one in enumerate(texts):
        check_text(one if isinstance(one, str) else one.text, f"{name}[{index}]", context)
    return [
        wire.Item(text=one) if isinstance(one, str) else wire.Item(text=one.text, id=one.id)
        for one in texts
    ]


def check_text(text: str, where: str, context: ToolContext) -> None:
    """Refuse a blank text and one over the limit of characters.

    Raises:
        InvalidInput: naming the place, the size and the limit.
    """
    if not text.strip():
        raise InvalidInput(f"{where} is empty; send at least one character that is not a space")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{where} holds half of a surrogate pair at position {error.start}; send valid Unicode"
        ) from error
    most = context.config.max_item_chars
    if len(text) > most:
        raise InvalidInput(
            f"{where} has {len(text):,} characters, the limit is {most:,}; split it"
        )
