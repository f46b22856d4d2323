"""A lock on a file that a child process can take over: it holds until the last holder has ended.

The kernel releases it however a holder ends, so no lock is ever stale. Knows nothing of workers.
"""

import os
import sys
from pathlib import Path
from typing import Self

if sys.platform != "win32":
    import fcntl


class Lock:
    """A lock that is held. A process started with `fd` passed on holds it too."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def note(self, text: str) -> None:
        """Write a line for whoever reads the file, such as who holds the lock."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text.encode() + b"\n", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def take_lock(path: Path) -> Lock | None:
    """Take the lock if nobody holds it, without waiting; None if somebody does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return Lock(fd)


def read_note(path: Path) -> str:
    """Return what the last holder noted."""
    return path.read_text("utf-8", "replace").strip() if path.exists() else ""
