"""Writing a file whole or not at all. Which paths may be written is decided in `folders`."""

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from sie_mcp.errors import InvalidInput


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Write through a temporary file in the same folder, then move it; return the size in bytes.

    Raises:
        OSError: the folder cannot be written to, or is full; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return size


def write_output(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Write the file that a caller asked for, atomically; return the size in bytes.

    Raises:
        InvalidInput: the folder cannot be written to, or is full.
    """
    try:
        return write_atomically(path, write)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write one JSON object a line; return the size in bytes."""
    return write_output(path, lambda file: file.writelines(map(_json_line, rows)))


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write a CSV table; None leaves a cell empty; return the size in bytes."""

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.DictWriter(text, columns)
        table.writeheader()
        table.writerows(rows)
        text.detach()

    return write_output(path, write)


def _json_line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
