"""Documents as Docling reads them: slides and sheets, and by choice pages, tables in Markdown.

It runs in a process of its own, which is ended where it takes too long, has so much memory and no
more, and reaches no hub.
"""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from sie_mcp.errors import InputTooLong, InvalidInput
from sie_mcp.tools.optional import missing
from sie_mcp.tools.readers.paragraphs import as_rows
from sie_mcp.tools.readers.rows import Request, Row, too_large

MAX_PAGES = 1_000
MAX_S = 300.0
COMMAND: Sequence[str] = (sys.executable, "-m", "sie_mcp.tools.readers.docling_process")
_ZIP = b"PK"
# How Python, C++, torch and Rust say that there is no memory left, or none for a thread.
_OUT_OF_MEMORY = (
    b"MemoryError",
    b"bad_alloc",
    b"allocate memory",
    b"memory allocation of",
    b"can't start new thread",
)


def read(file: BinaryIO, request: Request, *, memory_bytes: int) -> Iterator[Row]:
    """Yield a page, a slide or a sheet each; of a document without pages its paragraphs.

    Raises:
        InvalidInput: Docling is not installed, or cannot read it; too much in it, or too slow.
        InputTooLong: it needs more than `memory_bytes`.
    """
    if importlib.util.find_spec("docling") is None:
        raise missing("docling")
    data = file.read()
    if data.startswith(_ZIP):
        _check_unpacked(file, request)
    yield from rows_of(_converted(data, request, memory_bytes), request)


def rows_of(answer: dict[str, list[str] | str], request: Request) -> Iterator[Row]:
    """Yield what the process found.

    Raises:
        InvalidInput: what it could not read, or that there is no text.
    """
    if "error" in answer:
        raise InvalidInput(f"{request.name} {answer['error']}")
    if "pages" not in answer:
        yield from as_rows(answer["paragraphs"], request)
        return
    if not any(page.strip() for page in answer["pages"]):
        raise InvalidInput(f"{request.name} has no text on any page")
    for number, page in enumerate(answer["pages"], 1):
        yield Row(page, f"page {number}")


def _check_unpacked(file: BinaryIO, request: Request) -> None:
    """Refuse an archive that holds too much, before it is unpacked."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(one.file_size for one in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise InvalidInput(f"{request.name} is no readable document ({error})") from error
    if size > request.max_bytes:
        raise too_large(request.name, request.max_bytes)


def _converted(data: bytes, request: Request, memory_bytes: int) -> dict[str, list[str] | str]:
    ending = os.path.splitext(request.name)[1].lower()
    limits = (MAX_PAGES, request.max_bytes, MAX_S, memory_bytes)
    command = [*COMMAND, ending, *map(str, limits)]
    try:
        done = subprocess.run(
            command,
            input=data,
            capture_output=True,
            timeout=MAX_S,
            check=False,
            # What its models are is on this machine, or not at all.
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidInput(
            f"{request.name} takes Docling more than {MAX_S:.0f} s, the limit; split it"
        ) from error
    if done.returncode:
        if any(sign in done.stderr for sign in _OUT_OF_MEMORY):
            raise InputTooLong(
                f"{request.name} needs more than {memory_bytes:,} bytes of memory to be read, the "
                "limit (document_memory_bytes); split it"
            )
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"])[
            -1
        ]
        raise InvalidInput(
            f"{request.name} cannot be read by Docling: it ended with {done.returncode} "
            f"({last:.200}); save it anew, or give its text"
        )
    answer: dict[str, list[str] | str] = json.loads(done.stdout)
    return answer
