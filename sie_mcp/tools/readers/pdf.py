"""The pages of .pdf files that hold text; nothing is recognised in images."""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import pypdf
from pypdf.errors import PyPdfError

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import Request, Row

# What pypdf raises for files that are not as the standard says.
_BROKEN = (
    PyPdfError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield each page's text.

    Raises:
        InvalidInput: broken, encrypted, or no text on any page.
    """
    has_text = False
    for number, text in enumerate(_pages(file, request.name), 1):
        has_text = has_text or (not text.isspace() and text != "")
        yield Row(text, f"page {number}")
    if not has_text:
        raise InvalidInput(
            f"{request.name} has no text on any page; it may be scanned: recognise its text first "
            "(OCR)"
        )


def _pages(file: BinaryIO, name: str) -> Iterator[str]:
    num_read = 0
    try:
        document = pypdf.PdfReader(file)
        if document.is_encrypted and not document.decrypt(""):
            raise InvalidInput(f"{name} is encrypted; save it without a password")
        for page in document.pages:
            # A glyph without a character can come out as half of a surrogate pair.
            text = page.extract_text().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            num_read += 1
            yield text.replace("\0", "")
    except _BROKEN as error:
        where = f"after page {num_read}" if num_read else "its beginning or end"
        raise InvalidInput(
            f"{name} is no readable PDF ({where}: {type(error).__name__}: {error}); print it to a "
            "new PDF, or give its text"
        ) from error
