"""Where stores lie: in a folder of this machine or in an object store, and what locks there are."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from sie_mcp.config import Config
from sie_mcp.errors import SettingError


@dataclass(frozen=True, slots=True)
class StorePlace:
    """One store's URI, and where its lock is."""

    uri: str
    lock_file: Path

    def lock(self) -> FileLock:
        """Return what processes of this machine take to write where order matters.

        Raises:
            SettingError: its folder cannot be made.
        """
        return FileLock(_made(self.lock_file.parent) / self.lock_file.name)


def store_place(config: Config, *parts: str) -> StorePlace:
    """Return the place of the store that these parts name.

    Raises:
        SettingError: index_dir or cache_dir cannot be made.
    """
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    place = config.index_dir or str(config.cache_dir / "indexes")
    if "://" in place:
        # An object store has no locks: there processes of one machine wait for each other.
        return StorePlace(f"{place.rstrip('/')}/{key}", config.cache_dir / "locks" / f"{key}.lock")
    folder = _made(Path(place).expanduser())
    return StorePlace(str(folder / key), folder / f"{key}.lock")


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
