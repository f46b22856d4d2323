"""A file to its chunks, or to why it has none: too big, no text, broken."""

import hashlib
import io
import itertools
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.index.chunks import Chunk, Part, cut, with_headings
from sie_mcp.tools.opening import open_file
from sie_mcp.tools.readers import text as text_reader
from sie_mcp.tools.readers.formats import FORMATS, MARK_BYTES, kind_by_content
from sie_mcp.tools.readers.rows import Request

MAX_FILE_CHUNKS = 5_000
Unit = Literal["line", "page", "paragraph"]
_UNITS: dict[str, Unit] = {
    ".pdf": "page", ".docx": "paragraph", ".html": "paragraph", ".htm": "paragraph",
}  # fmt: skip
_MARKDOWN = (".md", ".mdx", ".markdown")


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held when it was read.

    Attributes:
        digest: Of its bytes.
        unit: What a chunk's numbers count.
        problem: Why there are no chunks, where that is not because it is blank.
        read_ns: When; a change in the same moment would not show in its time.
    """

    size: int
    mtime_ns: int
    digest: str
    unit: Unit
    chunks: list[Chunk]
    problem: str
    read_ns: int


def read_content(path: AllowedPath, max_bytes: int, known_digest: str) -> Content | None:
    """Read a file; its chunks are left out if its bytes are as known. None if it is gone.

    What cannot be read is no error here: other files can.
    """
    read_ns = time.time_ns()
    try:
        status = os.lstat(path.path)
    except FileNotFoundError:
        return None
    unit = _UNITS.get(path.ending, "line")
    chunks: list[Chunk] = []
    digest = problem = ""
    try:
        data = b""
        if status.st_size:
            with open_file(path, max_bytes) as file:
                status = os.fstat(file.fileno())
                data = file.read()
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        if digest != known_digest and data:
            chunks = _chunks(data, path, max_bytes)
    except InvalidInput as error:
        problem = str(error)
    return Content(status.st_size, status.st_mtime_ns, digest, unit, chunks, problem, read_ns)


def _chunks(data: bytes, path: AllowedPath, max_bytes: int) -> list[Chunk]:
    """Cut a file's text.

    Raises:
        InvalidInput: it has no text, or too much.
    """
    chunks = list(itertools.islice(_cut(data, path, max_bytes), MAX_FILE_CHUNKS + 1))
    if len(chunks) > MAX_FILE_CHUNKS:
        raise InvalidInput(
            f"{path.name} makes more than {MAX_FILE_CHUNKS:,} chunks, the limit for one file; "
            "split it"
        )
    return chunks


def read_part(path: AllowedPath, max_bytes: int, start: int, end: int) -> list[Chunk]:
    """Read the passages of a file from one line, page or paragraph to another, from 1.

    Raises:
        InvalidInput: it has no text, or none there.
    """
    with open_file(path, max_bytes) as file:
        data = file.read()
    last = 0
    chunks: list[Chunk] = []
    for group in _groups(data, path, max_bytes):
        parts = list(group)
        last = max([last, *(part.number for part in parts)])
        chunks += cut(part for part in parts if start <= part.number <= end)
    if not chunks:
        unit = _UNITS.get(path.ending, "line")
        raise InvalidInput(f"{path.name} has no text there; it has {last:,} {unit}s")
    return chunks


def _cut(data: bytes, path: AllowedPath, max_bytes: int) -> Iterator[Chunk]:
    for group in _groups(data, path, max_bytes):
        yield from cut(group)


def _groups(data: bytes, path: AllowedPath, max_bytes: int) -> Iterator[Iterable[Part]]:
    """Yield what is cut together: the parts of a file, or of each page.

    Raises:
        InvalidInput: it has no text.
    """
    request = Request(path.name, [], False, max_bytes)
    file = io.BytesIO(data)
    if path.ending in _UNITS:
        rows = FORMATS[path.ending].read(file, request)
        parts = (Part(_number(row.place, place), row.text) for place, row in enumerate(rows, 1))
        if _UNITS[path.ending] == "page":
            for page in parts:
                yield _lines_of(page)
        else:
            yield parts
        return
    if kind := kind_by_content(data[:MARK_BYTES]):
        raise InvalidInput(f"{path.name} is {kind}, not a text")
    lines = _lines(file, request)
    yield (
        with_headings(lines)
        if path.ending in _MARKDOWN
        else (Part(number, line) for number, line in enumerate(lines, 1))
    )


def _lines(file: BinaryIO, request: Request) -> Iterable[str]:
    blocks = text_reader.read_blocks(file, request)
    return (line.rstrip("\r\n") for line in text_reader.split_lines(blocks))


def _lines_of(page: Part) -> Iterator[Part]:
    """Cut a page at its lines; each is of that page."""
    for line in page.text.split("\n"):
        yield Part(page.number, line)


def _number(place: str, otherwise: int) -> int:
    found = re.search(r"\d+$", place)
    return int(found[0]) if found else otherwise
