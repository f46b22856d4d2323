"""Where stores lie: in a folder of this machine or in an object store, and what locks there are."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from sie_mcp.config import Config
from sie_mcp.errors import SettingError


@dataclass(frozen=True, slots=True)
class StorePlace:
    """One store's URI, and the lock that processes of this machine take to write."""

    uri: str
    lock: FileLock


def store_place(config: Config, *parts: str) -> StorePlace:
    """Return the place of the store that these parts name.

    Raises:
        SettingError: index_dir or cache_dir cannot be used.
    """
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    place = config.index_dir or str(config.cache_dir / "indexes")
    # An object store has no locks: there processes of one machine wait for each other.
    folder = _made(config.cache_dir / "locks" if "://" in place else Path(place).expanduser())
    uri = f"{place.rstrip('/')}/{key}" if "://" in place else str(folder / key)
    return StorePlace(uri, FileLock(folder / f"{key}.lock"))


def _made(folder: Path) -> Path:
    """Make a folder for this user alone: an index holds the texts of files.

    Raises:
        SettingError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingError(f"{folder} cannot be made ({error.strerror})") from error
    return folder
