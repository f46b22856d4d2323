"""A journal beside an output: what is done of a long file, for the call that goes on with it.

A line holds a checksum and JSON; the first says whose journal it is. Lines are only added, so that
whatever ends the process, all but the last line are whole; from a broken line on it is cut off.
Another call's journal has another name; one of other weights or another form is begun anew.
"""

import fcntl
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Self

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.opening import open_folder

# What a text's categories can come to, 20 paths at their longest; a longer line is not ours.
MAX_LINE_BYTES = 1_000_000
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Journal(AbstractContextManager["Journal"]):
    """Entries under hashes, on disk; memory holds where each stands. One process at a time.

    Args:
        output: The file that will be written; the journal lies in its folder.
        key: Identifies the work, as hexadecimal digits.
        owner: Who makes the entries, as JSON.
        is_same: Whether entries of this other owner count too.
    """

    def __init__(
        self,
        output: AllowedPath,
        key: str,
        owner: Mapping[str, Any],
        is_same: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        self._output = output
        self._name = f".sie-{key[:32]}.journal"
        self._owner = dict(owner)
        self._is_same = is_same
        # Where each entry's line begins, and how long it is.
        self._lines: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        """Open the journal and find what is in it.

        Raises:
            InvalidInput: another call is at the same work, or the folder cannot be written to.
        """
        try:
            with open_folder(self._output) as folder:
                descriptor = os.open(self._name, _FLAGS, 0o600, dir_fd=folder)
        except OSError as error:
            raise InvalidInput(f"{self.shown} cannot be written: {error.strerror}") from error
        self._descriptor = descriptor
        try:
            self._take()
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                self._read(file)
        except BaseException:
            os.close(descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def __contains__(self, name: str) -> bool:
        return name in self._lines

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, entries: Iterable[tuple[str, Any]]) -> None:
        """Append entries, all in one write, and have the system keep them.

        Raises:
            InvalidInput: the disk is full.
        """
        start = os.fstat(self._descriptor).st_size
        block = bytearray()
        places = {}
        for name, value in entries:
            line = _line([name, value])
            places[name] = start + len(block), len(line)
            block += line
        try:
            self._write(block)
        except OSError as error:
            raise InvalidInput(f"{self.shown} cannot be written: {error.strerror}") from error
        self._lines |= places

    def __getitem__(self, name: str) -> Any:
        """Read an entry back."""
        start, length = self._lines[name]
        found = _parse(os.pread(self._descriptor, length, start))
        if not _is_entry(found) or found[0] != name:
            raise InvalidInput(f"{self.shown} was changed meanwhile; delete it and call again")
        return found[1]

    def remove(self) -> None:
        """Delete the file: the work is done."""
        with open_folder(self._output) as folder:
            os.unlink(self._name, dir_fd=folder)

    @property
    def shown(self) -> str:
        """What errors call it."""
        return str(self._output.path.with_name(self._name))

    def _take(self) -> None:
        """Make sure that it is a file of our own that nobody else is writing."""
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise InvalidInput(
                f"{self.shown} is in the way; delete it, or choose another output_path"
            )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidInput(
                f"another call is writing {self._output.name} already; wait for it to end"
            ) from error

    def _read(self, file: BinaryIO) -> None:
        """Find the entries; cut off what was not written to its end."""
        end = len(line := file.readline(MAX_LINE_BYTES))
        first = _parse(line)
        if not (isinstance(first, dict) and self._is_same(first)):
            os.ftruncate(self._descriptor, 0)
            self._write(_line(self._owner))
            return
        while line := file.readline(MAX_LINE_BYTES):
            found = _parse(line)
            if not _is_entry(found):
                os.ftruncate(self._descriptor, end)
                return
            self._lines[found[0]] = end, len(line)
            end += len(line)

    def _write(self, block: bytes | bytearray) -> None:
        left = memoryview(block)
        while left:
            left = left[os.write(self._descriptor, left) :]
        os.fsync(self._descriptor)


def _is_entry(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and isinstance(found[0], str)


def _line(value: Any) -> bytes:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return f"{zlib.crc32(data):08x} ".encode() + data + b"\n"


def _parse(line: bytes) -> Any:
    """Return a line's value; None for one that is not whole."""
    check, _, data = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or check != f"{zlib.crc32(data):08x}".encode():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
