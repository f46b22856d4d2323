"""Writing files whole or not at all: our own, and those a caller asked for, which are always new.

One writer for every tool that gives a list: .jsonl, .csv and .parquet hold the same rows. Which
paths may be written is decided in `folders`.
"""

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import Field

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.opening import open_folder
from sie_mcp.tools.optional import load

TABLE_ENDINGS = (".jsonl", ".csv", ".parquet")
_PARQUET = "sie_mcp.tools.parquet_files"
# A FIFO must not block the open, nor a link be followed.
_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ColumnType = Literal["int", "text", "float", "bool", "vector"]
Rows = Iterable[Mapping[str, Any]]
OutputPath = Annotated[
    str,
    Field(
        max_length=4_096,
        description=f"Write all results to this new file: {', '.join(TABLE_ENDINGS)}.",
    ),
]


def find_output(
    context: ToolContext, output_path: str, endings: tuple[str, ...] = TABLE_ENDINGS
) -> AllowedPath | None:
    """Return the place that `output_path` names, or None for "", before any work is done.

    Raises:
        InvalidInput: it cannot be written there, or in that format.
    """
    if not output_path:
        return None
    path = context.folders.to_write(output_path, endings, argument="output_path")
    if path.ending == ".parquet":
        load(_PARQUET)
    return path


def write_rows(path: AllowedPath, columns: Mapping[str, ColumnType], rows: Rows) -> None:
    """Write rows in the format of the path's ending; a value that is missing or None is empty.

    Raises:
        InvalidInput: the file exists by now, or the folder cannot be written to, or is full.
    """
    names = list(columns)
    only = ({name: row.get(name) for name in names} for row in rows)
    if path.ending == ".parquet":
        write_table = load(_PARQUET).write_table
        write_new(path, lambda file: write_table(file, columns, only))
    elif path.ending == ".csv":
        write_new(path, lambda file: _write_csv(file, names, only))
    else:
        write_new(path, lambda file: file.writelines(map(_json_line, only)))


def write_new(path: AllowedPath, write: Callable[[BinaryIO], object]) -> int:
    """Write the file that a caller asked for; return the size in bytes.

    Raises:
        InvalidInput: the file exists by now, or the folder cannot be written to, or is full.
    """
    try:
        with open_folder(path) as folder:
            return _write(folder, path.parts[-1], write, is_new=True)
    except FileExistsError as error:
        raise InvalidInput(
            f"{path.path} was made by somebody else meanwhile and is not overwritten; choose "
            "another name"
        ) from error
    except OSError as error:
        raise InvalidInput(f"{path.path} cannot be written: {error.strerror}") from error


def append(path: AllowedPath, data: bytes) -> None:
    """Add to the end of a file that is there.

    Raises:
        InvalidInput: the file cannot be written to, or the disk is full.
    """
    try:
        with open_folder(path) as folder:
            descriptor = os.open(path.parts[-1], _APPEND_FLAGS, dir_fd=folder)
            with os.fdopen(descriptor, "ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise InvalidInput(f"{path.path} cannot be written: {error.strerror}") from error


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Write a file of our own, in place of an older one; return the size in bytes.

    Raises:
        OSError: the folder cannot be written to, or is full; nothing is left behind.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _write(folder, path.name, write, is_new=False)
    finally:
        os.close(folder)


def _write(folder: int, name: str, write: Callable[[BinaryIO], object], *, is_new: bool) -> int:
    """Write through a temporary file in the same folder, then move it."""
    # Short, so that a name as long as the system allows can still be written.
    temporary = f".sie-{secrets.token_hex(8)}.part"
    try:
        with open(temporary, "xb", opener=lambda path, flags: _create(path, flags, folder)) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if is_new:
            # Takes the name if nobody has it; a move alone would replace what came meanwhile.
            os.close(_create(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        _remove(temporary, folder)
    return size


def _create(name: str, flags: int, folder: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _write_csv(file: BinaryIO, names: list[str], rows: Rows) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    table = csv.DictWriter(text, names)
    table.writeheader()
    table.writerows(rows)
    text.detach()


def _json_line(row: Mapping[str, Any]) -> bytes:
    filled = {name: value for name, value in row.items() if value is not None}
    return (json.dumps(filled, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
