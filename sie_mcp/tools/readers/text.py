"""Bytes to characters and lines, a block at a time; and the reader of .txt and .md.

UTF-8, with or without a byte order mark, or UTF-16 with one: anything else would be a guess.
"""

import codecs
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.rows import Request, Row, too_large

BLOCK_BYTES = 64 * 1024
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_WINDOWS = range(0x80, 0xA0)


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield all of a plain text, or its lines."""
    blocks = read_blocks(file, request)
    if request.whole:
        yield Row("".join(blocks), "line 1")
        return
    for number, line in enumerate(split_lines(blocks), 1):
        yield Row(line.rstrip("\r\n"), f"line {number}")


def read_blocks(file: BinaryIO, request: Request) -> Iterator[str]:
    """Decode block by block.

    Raises:
        InvalidInput: not a text in a known encoding, or too much of it.
    """
    mark, encoding = _encoding(file)
    decoder = codecs.getincrementaldecoder(encoding)()
    done = len(mark)
    while True:
        block = file.read(BLOCK_BYTES)
        waiting = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise _not_text(request.name, encoding, error, done - waiting) from error
        if (null := text.find("\0")) >= 0:
            raise InvalidInput(
                f"{request.name} is not a text: it holds a null byte near byte {done + null:,}; "
                "if it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8"
            )
        done += len(block)
        if done > request.max_bytes:
            raise too_large(request.name, request.max_bytes)
        if not block:
            return
        yield text


def split_lines(blocks: Iterable[str]) -> Iterator[str]:
    r"""Yield lines with their "\n"."""
    # Not splitlines(): it also cuts at U+2028 and the like, which texts hold.
    parts: list[str] = []
    for block in blocks:
        first, *others = block.split("\n")
        parts.append(first)
        for other in others:
            yield "".join(parts) + "\n"
            parts = [other]
    if last := "".join(parts):
        yield last


def _encoding(file: BinaryIO) -> tuple[bytes, str]:
    """Read past a byte order mark; return it and what it means."""
    start = file.read(len(codecs.BOM_UTF8))
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            file.seek(len(mark))
            return mark, encoding
    file.seek(0)
    return b"", "utf-8"


def _not_text(
    name: str, encoding: str, error: UnicodeDecodeError, block_start: int
) -> InvalidInput:
    byte = error.object[error.start]
    # Latin-1 has no signs there, Windows has quotes and dashes.
    guess, code = ("Windows", "WINDOWS-1252") if byte in _WINDOWS else ("Latin-1", "LATIN1")
    return InvalidInput(
        f"{name} is not {encoding.upper()} (byte 0x{byte:02x} at {block_start + error.start}); "
        f"convert it, e.g. from {guess}: iconv -f {code} -t UTF-8, and call again"
    )
