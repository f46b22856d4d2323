"""The folder of the local worker's socket, lock and log: this user's own, and private.

Whoever can write there can answer in the worker's place, so a folder that others can write to, or
that is not ours, is refused rather than repaired.
"""

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sie_mcp.errors import SettingError
from sie_mcp.short_folders import Use, short_name

# Longest path of a Unix socket: 104 bytes on macOS, 108 on Linux, the closing zero included.
MAX_SOCKET_PATH = 100
MAX_TRIES = 10


def runtime_folder(wanted: Path, longest_name: str) -> Path:
    """Return a private folder in which a socket of `longest_name` can be bound.

    Where the wanted folder's path is too long for a socket, a short one under the system's
    temporary folder takes its place.

    Raises:
        SettingError: there is none, or it is not this user's own; the message says what to set.
    """
    if sys.platform == "win32":
        raise SettingError(
            "the shared local worker needs Unix sockets; run `sie-mcp worker --port 9000` and set "
            "SIE_MCP_WORKER_URL=http://127.0.0.1:9000"
        )
    folder = wanted.expanduser().absolute()
    if _is_too_long(folder, longest_name):
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        folder = Path(tempfile.gettempdir()) / short_name(digest)
    if _is_too_long(folder, longest_name):
        raise SettingError(
            f"no socket can be made under {wanted} nor {folder}: both paths are too long; set "
            f"SIE_MCP_RUNTIME_DIR to a path of at most {MAX_SOCKET_PATH - len(longest_name)} bytes"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"runtime_dir {folder} cannot be made ({error.strerror}); set SIE_MCP_RUNTIME_DIR"
        ) from error
    _require_private(folder)
    return folder


def held_folder(wanted: Path, longest_name: str) -> tuple[Path, Use | None]:
    """Return the same folder, and this process's hold on one that would be removed without.

    Raises:
        SettingError: as above.
    """
    for _ in range(MAX_TRIES):
        folder = runtime_folder(wanted, longest_name)
        # Another process that leaves may remove it just before it is held.
        with suppress(FileNotFoundError):
            return folder, Use.of(folder)
    raise SettingError(f"{folder} is removed again and again; set SIE_MCP_RUNTIME_DIR")


def _is_too_long(folder: Path, longest_name: str) -> bool:
    return len(os.fsencode(folder / longest_name)) > MAX_SOCKET_PATH


def _require_private(folder: Path) -> None:
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise SettingError(
            f"runtime_dir {folder} is not a folder of this user; set SIE_MCP_RUNTIME_DIR to one"
        )
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingError(
            f"runtime_dir {folder} can be written to by others; run `chmod 700 {folder}` or set "
            "SIE_MCP_RUNTIME_DIR"
        )
    if state.st_mode & 0o077:
        folder.chmod(0o700)
