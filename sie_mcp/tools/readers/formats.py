"""Which file formats are read, by ending. A reader's module is imported at first use."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast

from sie_mcp.tools.optional import load
from sie_mcp.tools.readers.rows import Reader

_COMPRESSED = ".gz"
# Where no setting says another number.
MEMORY_BYTES = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class Format:
    """A file format.

    Attributes:
        module: The reader's, in this package.
        has_columns: Whether its texts are made of named columns.
        is_document: Whether a text's number does not say where it stands: pages, paragraphs.
        mark: The bytes it begins with.
        is_compressed: Whether it lies in a gzip file.
        memory_bytes: What the process of its own that reads it may take; 0: it has none.
    """

    module: str
    has_columns: bool = False
    is_document: bool = False
    mark: bytes = b""
    is_compressed: bool = False
    memory_bytes: int = 0

    @property
    def read(self) -> Reader:
        """The reader's `read`.

        Raises:
            InvalidInput: it needs a library that is not installed.
        """
        read = load(f"sie_mcp.tools.readers.{self.module}").read
        if self.memory_bytes:
            read = partial(read, memory_bytes=self.memory_bytes)
        return cast(Reader, read)


_PLAIN = {
    ".csv": Format("delimited", has_columns=True),
    ".tsv": Format("delimited", has_columns=True),
    ".jsonl": Format("json_lines", has_columns=True),
    ".txt": Format("text"),
    ".md": Format("text"),
}
FORMATS = {
    **_PLAIN,
    ".parquet": Format("parquet", has_columns=True, mark=b"PAR1"),
    ".html": Format("html", is_document=True),
    ".htm": Format("html", is_document=True),
    ".pdf": Format("pdf", is_document=True, mark=b"%PDF-"),
    ".docx": Format("docx", is_document=True, mark=b"PK\x03\x04"),
    ".pptx": Format("docling", is_document=True, mark=b"PK\x03\x04", memory_bytes=MEMORY_BYTES),
    ".xlsx": Format("docling", is_document=True, mark=b"PK\x03\x04", memory_bytes=MEMORY_BYTES),
    **{
        ending + _COMPRESSED: Format(
            plain.module, plain.has_columns, mark=b"\x1f\x8b", is_compressed=True
        )
        for ending, plain in _PLAIN.items()
    },
}
# What Docling reads by choice; slides and sheets it reads in any case.
_BY_DOCLING = (".pdf", ".docx", ".html", ".htm", ".pptx", ".xlsx")
DocumentReader = Literal["own", "docling"]
MARK_BYTES = 1_024
# Of files that are often given a wrong ending.
_OTHER_MARKS = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a ZIP archive (.docx, .xlsx and the like)",
    b"PAR1": "Parquet",
    b"\x1f\x8b": "gzip",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"\x7fELF": "a program",
    b"SQLite format 3": "an SQLite database",
    b"\x93NUMPY": "a NumPy array",
    b"\xd0\xcf\x11\xe0": "an old Office file (.doc, .xls)",
}


def formats_for(reader: DocumentReader, memory_bytes: int = MEMORY_BYTES) -> Mapping[str, Format]:
    """Return the formats, documents read as the settings say."""
    endings = _BY_DOCLING if reader == "docling" else (".pptx", ".xlsx")
    return FORMATS | {
        ending: replace(FORMATS[ending], module="docling", memory_bytes=memory_bytes)
        for ending in endings
    }


def kind_by_content(start: bytes) -> str | None:
    """Say what a file with this beginning is, if it is well known and no text."""
    return next((kind for mark, kind in _OTHER_MARKS.items() if start.startswith(mark)), None)
