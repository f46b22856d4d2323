"""The paragraphs of .docx files, tables included; no headers, footers or comments.

The XML is read as it is unpacked, so that its size is known before it is held. A document type
declaration, which could multiply it, is refused: Office writes none.
"""

import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.paragraphs import as_rows
from sie_mcp.tools.readers.rows import Request, Row, too_large

_PART = "word/document.xml"
_BLOCK_BYTES = 64 * 1024
# In the order of ISO/IEC 29500 and of its transitional form.
_SPACES = (
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
)
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    expat.ExpatError,
    EOFError,
    OSError,
    NotImplementedError,
    UnicodeDecodeError,
    ValueError,
)


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield the document as one text, or its paragraphs.

    Raises:
        InvalidInput: no such document, an encrypted or broken one, or too much in it.
    """
    yield from as_rows(_paragraphs(file, request), request)


def _paragraphs(file: BinaryIO, request: Request) -> Iterator[str]:
    words = _Words(request.name)
    try:
        with zipfile.ZipFile(file) as archive, archive.open(_PART) as part:
            num_bytes = 0
            while block := part.read(_BLOCK_BYTES):
                num_bytes += len(block)
                if num_bytes > request.max_bytes:
                    raise too_large(request.name, request.max_bytes)
                words.feed(block)
                yield from words.take()
    except KeyError as error:
        raise InvalidInput(f"{request.name} is no Word document: it has no {_PART}") from error
    except RuntimeError as error:
        raise InvalidInput(f"{request.name} is encrypted; save it without a password") from error
    except _BROKEN as error:
        raise InvalidInput(f"{request.name} is no readable Word document ({error})") from error


class _Words:
    """Collects paragraphs from the events of a parser."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._done: list[str] = []
        self._parts: list[str] = []
        self._in_text = False
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._refuse

    def feed(self, block: bytes) -> None:
        self._parser.Parse(block)

    def take(self) -> list[str]:
        """Return the paragraphs that ended since the last time."""
        done, self._done = self._done, []
        return done

    def _start(self, tag: str, _: dict[str, str]) -> None:
        word = _word(tag)
        self._in_text = word == "t"
        self._parts.append(_BREAKS.get(word, ""))

    def _end(self, tag: str) -> None:
        self._in_text = False
        if _word(tag) == "p":
            self._done.append("".join(self._parts))
            self._parts = []

    def _characters(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)

    def _refuse(self, *_: object) -> None:
        raise InvalidInput(f"{self._name} holds a document type declaration; no Word document does")


def _word(tag: str) -> str:
    """Return a tag's name if it is one of Word's."""
    space, _, name = tag.rpartition(" ")
    return name if space in _SPACES else ""
