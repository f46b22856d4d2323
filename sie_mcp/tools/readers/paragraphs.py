"""Paragraphs of a document to texts: each one, or all of them together."""

from collections.abc import Iterable, Iterator

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import Request, Row

_GAP = "\n\n"


def as_rows(paragraphs: Iterable[str], request: Request) -> Iterator[Row]:
    """Yield the paragraphs that hold anything, or one text of them all.

    Raises:
        InvalidInput: there are none.
    """
    filled = (stripped for one in paragraphs if (stripped := one.strip()))
    number = 0
    if request.whole:
        if text := _GAP.join(filled):
            number = 1
            yield Row(text, "paragraph 1")
    else:
        for number, text in enumerate(filled, 1):
            yield Row(text, f"paragraph {number}")
    if not number:
        raise InvalidInput(f"{request.name} holds no text")
