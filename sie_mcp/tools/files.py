"""Reading and writing files for tools: inside allowed folders only, with limits, atomically."""

import csv
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext

MAX_FILE_BYTES = 64 * 1024 * 1024
# The csv module's own limit is smaller than a long description.
csv.field_size_limit(4 * 1024 * 1024)


def resolve_inside(path: str, context: ToolContext) -> Path:
    """Return the real path, links and `..` resolved, if it lies in an allowed folder.

    Raises:
        InvalidInput: outside, or files are not allowed at all.
    """
    if not context.files_allowed:
        raise InvalidInput("this server has no access to files; send the texts themselves")
    if "\0" in path:
        raise InvalidInput("a path cannot hold a NUL character")
    folders = [folder.expanduser().resolve() for folder in context.config.allow]
    wanted = Path(path).expanduser()
    real = (wanted if wanted.is_absolute() else folders[0] / wanted).resolve()
    if not any(real == folder or folder in real.parents for folder in folders):
        allowed = ", ".join(str(folder) for folder in folders)
        raise InvalidInput(
            f"{path} lies outside the allowed folders ({allowed}); "
            "start the server with --allow FOLDER to add one"
        )
    return real


def read_text(path: str, context: ToolContext) -> str:
    """Read a whole UTF-8 text file.

    Raises:
        InvalidInput: outside the allowed folders, not a regular file, too large, or not UTF-8.
    """
    real = resolve_inside(path, context)
    # Opened without blocking: a pipe inside the folder must not hang the server.
    try:
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise InvalidInput(f"{path} is not a regular file")
        if state.st_size > MAX_FILE_BYTES:
            raise InvalidInput(
                f"{path} has {state.st_size:,} bytes, the limit is {MAX_FILE_BYTES:,}; split it"
            )
        data = file.read(MAX_FILE_BYTES + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text (byte {error.start})") from error


def read_rows(path: str, context: ToolContext) -> list[dict[str, Any]]:
    """Read a .csv, .tsv or .jsonl file as one mapping a row.

    Raises:
        InvalidInput: another kind of file, or a row that cannot be parsed, with its line.
    """
    text = read_text(path, context)
    suffix = Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return [_json_row(line, path, number) for number, line in enumerate(text.split("\n"), 1)
                if line.strip()]
    if suffix in (".csv", ".tsv"):
        lines = text.splitlines(keepends=True)
        reader = csv.DictReader(lines, delimiter="\t" if suffix == ".tsv" else ",")
        try:
            return [dict(row) for row in reader]
        except csv.Error as error:
            raise InvalidInput(f"{path} line {reader.line_num}: {error}") from error
    raise InvalidInput(f"{path}: rows are read from .csv, .tsv and .jsonl files, not {suffix!r}")


def column_texts(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], path: str
) -> tuple[list[str], list[int]]:
    """Join the columns of each row to a text; return texts and their rows, blank rows left out.

    Raises:
        InvalidInput: no rows, or a column that does not exist, with those that do.
    """
    if not rows:
        raise InvalidInput(f"{path} holds no rows")
    for column in columns:
        if not any(column in row for row in rows):
            known = ", ".join(str(name) for name in rows[0])
            raise InvalidInput(f"{path} has no column {column!r}; it has: {known}")
    texts: list[str] = []
    numbers: list[int] = []
    for number, row in enumerate(rows):
        parts = [str(row.get(column) or "").strip() for column in columns]
        text = ". ".join(part for part in parts if part)
        if text:
            texts.append(text)
            numbers.append(number)
    if not texts:
        raise InvalidInput(f"{path}: {', '.join(columns)} is empty in every row")
    return texts, numbers


def write_atomically(
    path: str, context: ToolContext, suffixes: Sequence[str], write: Callable[[IO[bytes]], None]
) -> Path:
    """Write a file beside its place and move it there: it is whole or not there.

    Raises:
        InvalidInput: outside the allowed folders, another suffix, or the disk refuses.
    """
    real = resolve_inside(path, context)
    if real.suffix.lower() not in suffixes:
        raise InvalidInput(f"{path}: write one of {', '.join(suffixes)}")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        temporary.replace(real)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return real


def write_rows(path: str, context: ToolContext, rows: Iterable[dict[str, Any]]) -> Path:
    """Write rows as .jsonl or .csv; a CSV's columns are those of the first row."""

    def write(file: IO[bytes]) -> None:
        if path.lower().endswith(".csv"):
            _write_csv(file, rows)
        else:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    return write_atomically(path, context, (".jsonl", ".csv"), write)


class _Utf8Lines:
    """What the csv module writes to, over a binary file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write one line."""
        return self._file.write(text.encode())


def _write_csv(file: IO[bytes], rows: Iterable[dict[str, Any]]) -> None:
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(_Utf8Lines(file), fieldnames=list(row), extrasaction="ignore")
            writer.writeheader()
        writer.writerow(row)


def _json_row(line: str, path: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"{path} line {number}: {error}") from error
    if not isinstance(row, dict):
        raise InvalidInput(f"{path} line {number} is not a JSON object")
    return row
