"""Texts out of files of any format: opened safely, checked for what they are, and read in order.

Which paths may be read is decided in `folders`; what is in a file is known to its reader alone.
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.opening import open_file
from sie_mcp.tools.readers.formats import FORMATS, MARK_BYTES, Format, kind_by_content
from sie_mcp.tools.readers.rows import Request, Row
from sie_mcp.tools.readers.text import read_blocks

MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one or several files, blank ones too, in order.

    Attributes:
        rows: Each text, and where it stands in its file.
        files: For each text the number of its file in `names`.
        names: The files.
        has_places: Whether a text's number alone does not say where it stands.
    """

    rows: list[Row]
    files: list[int]
    names: list[str]
    has_places: bool

    def source(self, number: int) -> str:
        """Say where a text stands, such as "docs/a.md line 3"."""
        return source_of(self.names[self.files[number]], self.rows[number])


def read_files(
    paths: Sequence[AllowedPath],
    columns: Sequence[str],
    *,
    whole: bool,
    max_bytes: int,
    formats: Mapping[str, Format] = FORMATS,
    image_column: str = "",
) -> Texts:
    """Read the texts of files; blank ones are kept, so that positions are the files'.

    Args:
        paths: Files whose endings are known.
        columns: What to join into one text; none means a column `text`, or the only one.
        whole: Whether a text without columns is one text, rather than one a line or paragraph.
        max_bytes: How much all of them may hold, on disk and unpacked.
        formats: Who reads which ending.
        image_column: What names each row's image; "" for none.

    Raises:
        InvalidInput: what a reader refuses, or too many rows.
    """
    rows: list[Row] = []
    files: list[int] = []
    found = stream_files(
        paths,
        columns,
        whole=whole,
        max_bytes=max_bytes,
        formats=formats,
        image_column=image_column,
    )
    for number, row in found:
        rows.append(row)
        files.append(number)
    return Texts(rows, files, [path.name for path in paths], has_places(paths))


def stream_files(
    paths: Sequence[AllowedPath],
    columns: Sequence[str],
    *,
    whole: bool,
    max_bytes: int,
    formats: Mapping[str, Format] = FORMATS,
    image_column: str = "",
) -> Iterator[tuple[int, Row]]:
    """Yield the texts of files one by one, each with its file's number; as `read_files` else."""
    num_rows = num_bytes = 0
    for number, path in enumerate(paths):
        request = Request(path.name, columns, whole, max_bytes, image_column)
        for row in _read(path, request, formats[path.ending]):
            num_bytes += len(row.text) + len(row.image)
            if num_rows == MAX_ROWS or num_bytes > max_bytes:
                raise _too_much(path, len(paths), num_rows == MAX_ROWS, max_bytes)
            num_rows += 1
            yield number, row


def has_places(paths: Sequence[AllowedPath]) -> bool:
    """Whether a text's number alone does not say where it stands."""
    return len(paths) > 1 or FORMATS[paths[0].ending].is_document


def source_of(name: str, row: Row) -> str:
    """Say where a text stands, such as "docs/a.md line 3"."""
    return f"{name} {row.place}" if row.place else name


def read_text(path: AllowedPath, max_bytes: int) -> str:
    """Read all of a UTF-8 file; a byte order mark is dropped.

    Raises:
        InvalidInput: no such text, or what `open_file` refuses.
    """
    with open_file(path, max_bytes) as file:
        return "".join(read_blocks(file, Request(path.name, [], True, max_bytes)))


def _read(path: AllowedPath, request: Request, form: Format) -> Iterator[Row]:
    if not form.has_columns and (request.columns or request.image_column):
        what = "columns" if request.columns else "image_column"
        raise InvalidInput(f"{path.name} has no columns; leave `{what}` out")
    with open_file(path, request.max_bytes) as file:
        _check_mark(file, form, path)
        num_rows = 0
        for row in _unpacked(file, form, request):
            num_rows += 1
            yield row
    if not num_rows:
        raise InvalidInput(f"{path.name} holds no rows")


def _unpacked(file: BinaryIO, form: Format, request: Request) -> Iterator[Row]:
    if not form.is_compressed:
        yield from form.read(file, request)
        return
    try:
        # Readers of texts count the bytes that they read.
        yield from form.read(cast(BinaryIO, gzip.GzipFile(fileobj=file)), request)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInput(f"{request.name} is no whole gzip file ({error})") from error


def _check_mark(file: BinaryIO, form: Format, path: AllowedPath) -> None:
    """Refuse a file that is something else than its ending says."""
    start = file.read(MARK_BYTES)
    file.seek(0, io.SEEK_SET)
    # Programs forgive what stands before a document.
    if form.mark and (start.startswith(form.mark) or (form.is_document and form.mark in start)):
        return
    kind = kind_by_content(start)
    if form.mark or kind:
        raise InvalidInput(
            f"{path.name} is no {path.ending} file: it begins like {kind or ascii(start[:8])}; "
            "give it its right ending, or convert it"
        )


def _too_much(path: AllowedPath, num_paths: int, is_rows: bool, max_bytes: int) -> InvalidInput:
    what = path.name if num_paths == 1 else f"the files up to {path.name}"
    if is_rows:
        return InvalidInput(f"{what}: more than {MAX_ROWS:,} rows, the limit; split it")
    return InvalidInput(
        f"{what}: more than {max_bytes:,} characters of text, the limit (max_file_bytes); read less"
    )
