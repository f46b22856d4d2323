"""Which paths go on from what was typed, in the allowed folders and nowhere else. Opens no file."""

import itertools
import os
from collections.abc import Collection

from sie_mcp.tools.folders import AllowedPath, Folders, ending_of

# In one folder; more than that nobody chooses from.
MAX_ENTRIES = 10_000


def paths_like(folders: Folders, typed: str, endings: Collection[str]) -> list[str]:
    """Return folders, with "/" behind, and files of these endings whose paths begin so, sorted.

    Hidden names come only if a dot was typed; links not at all.

    Raises:
        InvalidInput: files are off, or the folder that was typed is outside.
    """
    head, slash, start = typed.rpartition("/")
    found: set[str] = set()
    for folder in folders.inside(head + slash or ".", "path"):
        found.update(head + slash + name for name in _names(folder, start, endings))
    return sorted(found)


def _names(folder: AllowedPath, start: str, endings: Collection[str]) -> list[str]:
    names = []
    try:
        with os.scandir(folder.path) as entries:
            for entry in itertools.islice(entries, MAX_ENTRIES):
                if not entry.name.startswith(start) or (entry.name[0] == "." and not start):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name + "/")
                elif entry.is_file(follow_symlinks=False) and ending_of(entry.name) in endings:
                    names.append(entry.name)
    except OSError:  # no such folder yet, or it may not be read
        return []
    # A name of bytes that are no text cannot be sent.
    return [name for name in names if not any("\ud800" <= char <= "\udfff" for char in name)]
