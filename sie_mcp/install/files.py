"""Reading and replacing somebody else's file: whole or not at all, with the old one kept.

Knows bytes and paths; knows nothing of what the files say.
"""

import codecs
import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sie_mcp.errors import ConfigurationRefused

BACKUP_SUFFIX = ".before-sie-mcp"
# The largest of these files hold a client's whole history, some megabytes.
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it was read. `text` has plain line ends and no byte-order mark."""

    path: Path
    data: bytes | None
    text: str

    @property
    def exists(self) -> bool:
        """Whether there was a file."""
        return self.data is not None


def read(path: Path) -> Original:
    """Read a file; one that is not there is empty. A link is followed, so that it stays a link.

    Raises:
        ConfigurationRefused: it cannot be read, or is no text in UTF-8.
    """
    target = path.resolve()
    try:
        if target.stat().st_size > MAX_BYTES:
            raise ConfigurationRefused(f"it has more than {MAX_BYTES} bytes")
        data = target.read_bytes()
    except FileNotFoundError:
        return Original(target, None, "")
    except OSError as error:
        raise ConfigurationRefused(f"it cannot be read ({error.strerror})") from error
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise ConfigurationRefused(f"it is not UTF-8 ({error.reason})") from error
    return Original(target, data, text.replace("\r\n", "\n"))


def replace(original: Original, text: str) -> Path | None:
    """Put a new text in a file's place; return where the old one is kept, None if there was none.

    Line ends, byte-order mark and permissions stay as they were.

    Raises:
        ConfigurationRefused: somebody changed the file meanwhile, or it cannot be written.
    """
    path, old = original.path, original.data
    new = _encoded(text, old or b"")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    backup = path.with_name(path.name + BACKUP_SUFFIX) if old is not None else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(temporary, new)
        if backup is not None:
            shutil.copymode(path, temporary)
            shutil.copy2(path, backup)
        if (path.read_bytes() if path.exists() else None) != old:
            raise ConfigurationRefused("it was changed by another program just now; try again")
        temporary.replace(path)
    except OSError as error:
        raise ConfigurationRefused(f"it cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return backup


def _encoded(text: str, old: bytes) -> bytes:
    if b"\r\n" in old:
        text = text.replace("\n", "\r\n")
    mark = codecs.BOM_UTF8 if old.startswith(codecs.BOM_UTF8) else b""
    try:
        return mark + text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationRefused("it holds half of a surrogate pair") from error


def _write(path: Path, data: bytes) -> None:
    """Write to the disk itself: a power cut must not leave an empty file under the real name."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
