"""Opening files inside the allowed folders so that no link, wherever it stands, is followed.

A path was resolved before; what lies on it can change until it is opened. So each folder on the
way is opened through the one above it, and the system refuses a link in any place.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO must not block the open.
_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CHANGED = (errno.ELOOP, errno.ENOTDIR)


def open_file(path: AllowedPath, max_bytes: int) -> BinaryIO:
    """Open a regular file that holds something, for reading.

    Raises:
        InvalidInput: not a regular file, empty, over `max_bytes`, or unreadable.
    """
    try:
        with open_folder(path) as folder:
            descriptor = os.open(path.parts[-1], _FILE_FLAGS, dir_fd=folder)
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read: {_reason(error)}") from error
    try:
        _check(os.fstat(descriptor), path.name, max_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@contextmanager
def open_folder(path: AllowedPath) -> Iterator[int]:
    """Open the folder of a file, as a descriptor.

    Raises:
        OSError: something on the way is no folder, or a link.
    """
    descriptor = os.open(path.root, _FOLDER_FLAGS)
    try:
        for part in path.parts[:-1]:
            below = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _check(status: os.stat_result, name: str, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{name} is not a regular file")
    if status.st_size > max_bytes:
        raise InvalidInput(
            f"{name} has {status.st_size:,} bytes; the limit is {max_bytes:,} (max_file_bytes); "
            "split it"
        )
    # So are the files of /proc, which are made up when they are read.
    if status.st_size == 0:
        raise InvalidInput(f"{name} is empty (0 bytes)")


def _reason(error: OSError) -> str:
    if error.errno in _CHANGED:
        return "it, or a folder on the way, was replaced by a link"
    return str(error.strerror)
