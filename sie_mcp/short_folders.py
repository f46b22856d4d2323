"""Folders under the temporary one that stand in for paths too long for a socket: whose, how long.

Gateways hold a shared lock on a file of the folder for as long as they may use it, and workers one
of their own for as long as they live; the kernel lets go of both however a process ends. What
nobody holds is removed: by the last that leaves in order, else at the start of another worker.
Knows files and locks; knows nothing of workers but what their files are called.
"""

import contextlib
import logging
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

USERS = "gateways"
# What a worker wrote before it ended badly is there for whoever was told of it, so long at least.
EVIDENCE_S = 3_600.0
# Gateways of earlier versions hold no lock on theirs.
UNLOCKED_S = 86_400.0
# At one start.
MAX_REMOVED = 256
# Others remove the folder just then: once is rare.
_MAX_TRIES = 10


def short_name(digest: str) -> str:
    """Return the name of a folder of this user."""
    return f"sie-mcp-{os.getuid()}-{digest}"


def is_short(folder: Path) -> bool:
    """Whether a folder stands in for another: those that somebody named are not ours to remove."""
    return re.fullmatch(rf"sie-mcp-{os.getuid()}-[0-9a-f]{{8}}", folder.name) is not None


class Use:
    """A gateway's hold on a folder; `end` lets go, and removes what nobody else holds.

    Args:
        folder: Of this user, private.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = _open_users(folder)

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Hold a folder; None for one that is nobody's to remove.

        Raises:
            FileNotFoundError: another process has just removed it.
        """
        return cls(folder) if is_short(folder) else None

    def end(self) -> None:
        """Let go."""
        os.close(self._fd)
        remove_if_unused(self._folder)


def leave(socket: Path) -> None:
    """Let go of a worker's folder, as the last thing that it does in order: its log is no evidence.

    The worker's own lock is held until its process has ended, and does not count.
    """
    if not is_short(socket.parent):
        return
    for suffix in (".log", ".log.1"):
        socket.with_suffix(suffix).unlink(missing_ok=True)
    remove_if_unused(socket.parent, own=socket.with_suffix(".lock").name)


def leave_if_empty(folder: Path) -> None:
    """Remove a folder that was only looked into, and made for that."""
    if is_short(folder):
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_old() -> None:
    """Remove the folders of this user that nobody holds; blocks for a moment."""
    found = Path(tempfile.gettempdir()).glob(short_name("????????"))
    for _, folder in zip(range(MAX_REMOVED), filter(_is_own, found), strict=False):
        remove_if_unused(folder)


def remove_if_unused(folder: Path, own: str = "") -> None:
    """Remove a folder unless a process holds it, or a log in it is too young.

    Args:
        folder: One of `is_short`.
        own: The lock of the caller's.
    """
    with contextlib.suppress(OSError), _alone(folder) as is_alone:
        files = list(folder.iterdir())
        locks = [one for one in files if one.suffix == ".lock" and one.name != own]
        if is_alone and not _has_evidence(files) and not any(_is_held(one) for one in locks):
            # The file of the lock last: who comes meanwhile waits for it, and then begins anew.
            for one in sorted(files, key=lambda one: one.name == USERS):
                one.unlink()
            folder.rmdir()
            logger.info("removed folder=%s", folder)


def _open_users(folder: Path) -> int:
    """Return a shared lock on the folder's file, which is still there once it is held."""
    path = folder / USERS
    for _ in range(_MAX_TRIES):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        if _is_same(fd, path):
            return fd
        os.close(fd)
    raise FileNotFoundError(f"{path} is removed again and again")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Say whether no gateway holds a folder, and keep it so for the length of the block."""
    path = folder / USERS
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield _youngest_s(folder) > UNLOCKED_S
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield _is_same(fd, path)
    except BlockingIOError:
        yield False
    finally:
        os.close(fd)


def _is_same(fd: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.fstat(fd).st_ino == path.lstat().st_ino
    return False


def _is_held(path: Path) -> bool:
    """Whether a process holds a worker's lock."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def _has_evidence(files: list[Path]) -> bool:
    logs = [one.lstat() for one in files if one.suffix in (".log", ".1")]
    return any(one.st_size and time.time() - one.st_mtime < EVIDENCE_S for one in logs)


def _youngest_s(folder: Path) -> float:
    times = [one.lstat().st_mtime for one in (folder, *folder.iterdir())]
    return time.time() - max(times)


def _is_own(folder: Path) -> bool:
    try:
        state = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and is_short(folder)
