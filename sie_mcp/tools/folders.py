"""Which paths a tool may touch: regular files inside the allowed folders, nothing else.

Links and ".." are resolved before anything is decided, and a path outside is refused in the same
words whether or not it exists. Knows no file format.
"""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sie_mcp.errors import InvalidInput

MAX_FILE_BYTES = 64 * 1024 * 1024
# A FIFO must not block the open, and the last component must still not be a link.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Folders:
    """The allowed folders; none means that files are off."""

    allowed: tuple[Path, ...]

    def to_read(self, path: str, suffixes: Collection[str], *, argument: str = "path") -> Path:
        """Return the real path of a file that may be read.

        A relative path is looked for in each allowed folder, in order.

        Raises:
            InvalidInput: files are off, the kind is not known, or no such file inside.
        """
        inside = self._inside(path, suffixes, argument)
        for candidate in inside:
            if os.path.exists(candidate):
                return candidate
        raise InvalidInput(f"{argument}: no file {path!r} in the allowed folders: {self}")

    def to_write(self, path: str, suffixes: Collection[str], *, argument: str) -> Path:
        """Return the real path for a new file, in a folder that exists.

        Raises:
            InvalidInput: as `to_read`, or something of that name exists: nothing is overwritten.
        """
        for candidate in self._inside(path, suffixes, argument):
            if not os.path.isdir(candidate.parent):
                continue
            if os.path.lexists(candidate):
                raise InvalidInput(
                    f"{argument}: {path!r} exists and is not overwritten; choose another name"
                )
            return candidate
        raise InvalidInput(f"{argument}: the folder of {path!r} does not exist")

    def _inside(self, path: str, suffixes: Collection[str], argument: str) -> list[Path]:
        """Resolve the path and keep what lies inside an allowed folder."""
        if not self.allowed:
            raise InvalidInput(
                f"{argument}: no access to files on this server; send the texts in the call"
            )
        if (suffix := Path(path).suffix.lower()) not in suffixes:
            raise InvalidInput(
                f"{argument}: {path!r} {f'is a {suffix} file' if suffix else 'has no ending'}; "
                f"known: {', '.join(suffixes)}"
            )
        if "\0" in path:
            raise InvalidInput(f"{argument}: {path!r} holds a null character")
        roots = [Path(os.path.realpath(folder)) for folder in self.allowed]
        candidates = [Path(os.path.realpath(root / path)) for root in roots]
        inside = [c for c in candidates if any(c.is_relative_to(root) for root in roots)]
        if not inside:
            raise InvalidInput(f"{argument}: {path!r} is outside the allowed folders: {self}")
        return list(dict.fromkeys(inside))

    def __str__(self) -> str:
        return ", ".join(str(folder) for folder in self.allowed)


def read_bytes(path: Path) -> bytes:
    """Read a regular file of at most `MAX_FILE_BYTES`.

    Raises:
        InvalidInput: not a regular file, too large, or unreadable.
    """
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"{path.name} is not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise InvalidInput(
                    f"{path.name} has {status.st_size:,} bytes; the limit is "
                    f"{MAX_FILE_BYTES:,}; split it"
                )
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_FILE_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read: {error.strerror}") from error
