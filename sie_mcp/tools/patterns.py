"""Patterns of paths: `*` and `?` within a name, `**` for any folders. Follows no link.

Walks each folder once, whatever the pattern, and only where something below can still match.
"""

import fnmatch
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sie_mcp.errors import InvalidInput

MAX_ENTRIES = 200_000
_ANY_FOLDERS = "**"
_WILD = frozenset("*?[")


def is_pattern(path: str) -> bool:
    """Return whether a path holds a wildcard."""
    return not _WILD.isdisjoint(path)


def split_pattern(path: str) -> tuple[str, list[str]]:
    """Split into the folder to start in and the names to match below.

    Raises:
        InvalidInput: ".." after a wildcard.
    """
    parts = path.split("/")
    first = next(number for number, part in enumerate(parts) if is_pattern(part))
    below = [part for part in parts[first:] if part not in ("", ".")]
    if ".." in below:
        raise InvalidInput(f"path: {path!r} has '..' after a wildcard; leave it out")
    return "/".join(parts[:first]) or ("/" if path.startswith("/") else "."), below


def matching_files(
    folder: Path,
    parts: Sequence[str],
    is_skipped: Callable[[str, bool], bool] = lambda _below, _is_folder: False,
) -> Iterator[str]:
    """Yield the files below that match, relative, with "/" between names.

    `is_skipped` is asked for each name that matches, and for each folder before it is entered.

    Hidden names match only a part that begins with a dot. A folder that cannot be read is passed
    over, as shells do.

    Raises:
        InvalidInput: more than `MAX_ENTRIES` names were looked at.
    """
    num_seen = 0
    waiting = [("", _reach({0}, parts))]
    while waiting:
        below, places = waiting.pop()
        try:
            entries = list(os.scandir(folder / below))
        except OSError:
            continue
        num_seen += len(entries)
        if num_seen > MAX_ENTRIES:
            raise InvalidInput(
                f"path: the pattern goes through more than {MAX_ENTRIES:,} names, the limit; "
                "name a folder below"
            )
        for entry in entries:
            after = _step(places, entry.name, parts)
            if not after:
                continue
            name = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not is_skipped(name, True):
                    waiting.append((f"{name}/", after))
            elif (
                len(parts) in after
                and entry.is_file(follow_symlinks=False)
                and not is_skipped(name, False)
            ):
                yield name


def _step(places: set[int], name: str, parts: Sequence[str]) -> set[int]:
    """Return the places in the pattern after one more name."""
    after = set()
    for place in places:
        if place == len(parts):
            continue
        part = parts[place]
        if name.startswith(".") and not part.startswith("."):
            continue
        if part == _ANY_FOLDERS:
            after.add(place)
        elif fnmatch.fnmatchcase(name, part):
            after.add(place + 1)
    return _reach(after, parts)


def _reach(places: set[int], parts: Sequence[str]) -> set[int]:
    """Add the places behind each `**`, which may stand for nothing."""
    reached = set(places)
    for place in sorted(places):
        while place < len(parts) and parts[place] == _ANY_FOLDERS:
            place += 1
            reached.add(place)
    return reached
