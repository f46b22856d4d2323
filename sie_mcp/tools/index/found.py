"""Which files a search is over: the named ones, and what lies in the named folders."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.folders import AllowedPath, Folders, ending_of
from sie_mcp.tools.optional import load
from sie_mcp.tools.patterns import is_pattern, matching_files, split_pattern

MAX_FILES = 20_000
MAX_TOTAL_BYTES = 1024**3
_EVERYTHING = ["**"]


@dataclass(frozen=True, slots=True)
class File:
    """One file, and what tells quickly whether it changed."""

    path: AllowedPath
    size: int
    mtime_ns: int

    @property
    def key(self) -> str:
        """Its resolved path, by which it is known."""
        return str(self.path.path)


@dataclass(frozen=True, slots=True)
class Found:
    """The files in the order of their paths, all in one allowed folder.

    Attributes:
        root: The allowed folder.
        files: By resolved path.
        starts: The folders that were gone through; what is no longer there has left.
    """

    root: Path
    files: dict[str, File]
    starts: tuple[Path, ...]

    def is_below(self, key: str) -> bool:
        """Whether a path lies in a folder that was gone through."""
        return any(Path(key).is_relative_to(start) for start in self.starts)


def find_files(
    folders: Folders,
    paths: Sequence[str],
    *,
    argument: str = "paths",
    endings: Collection[str] | None = None,
    max_total_bytes: int | None = None,
) -> Found:
    """Find the files that paths, folders and patterns name; with `endings` only such.

    `max_total_bytes` is what all of them may hold, where it is not the limit for texts.

    Raises:
        InvalidInput: nothing there, too much, outside, or in two allowed folders.
    """
    found: dict[str, File] = {}
    starts: list[AllowedPath] = []
    for path in paths:
        start, parts = path, _EVERYTHING
        if is_pattern(path) and not _is_file(folders, path, argument):
            start, parts = split_pattern(path)
        inside = folders.to_search(start, argument=argument)
        starts.append(inside)
        if inside.path.is_dir():
            _walk(inside, parts, found, endings)
        elif endings is None or inside.ending in endings:
            _add(inside, found)
        _check_limits(found, path, argument, max_total_bytes or MAX_TOTAL_BYTES)
    roots = {start.root for start in starts}
    if len(roots) > 1:
        raise InvalidInput(
            f"{argument}: they lie in several allowed folders "
            f"({', '.join(sorted(map(str, roots)))}); search one at a time"
        )
    if not found:
        kind = "file" if endings is None else f"{', '.join(endings)} file"
        raise InvalidInput(f"{argument}: no {kind} in {', '.join(map(repr, paths))}")
    folders_only = tuple(start.path for start in starts if start.path.is_dir())
    return Found(roots.pop(), {key: found[key] for key in sorted(found)}, folders_only)


def _is_file(folders: Folders, path: str, argument: str) -> bool:
    """Whether a name with a bracket or a star is a file's own."""
    start, _ = split_pattern(path)
    return (folders.to_search(start, argument=argument).root / path).is_file()


def _walk(
    start: AllowedPath,
    parts: Sequence[str],
    found: dict[str, File],
    endings: Collection[str] | None,
) -> None:
    is_skipped = load("sie_mcp.tools.index.ignored").Ignored(start)
    for below in matching_files(start.path, parts, is_skipped):
        if endings is not None and ending_of(below) not in endings:
            continue
        name = str(PurePosixPath(start.name) / below)
        _add(AllowedPath(start.root, start.path / below, name), found)
        if len(found) > MAX_FILES:
            return


def _add(path: AllowedPath, found: dict[str, File]) -> None:
    try:
        status = os.lstat(path.path)
    except FileNotFoundError:  # deleted since it was listed
        return
    found.setdefault(str(path.path), File(path, status.st_size, status.st_mtime_ns))


def _check_limits(found: dict[str, File], path: str, argument: str, max_bytes: int) -> None:
    if len(found) > MAX_FILES:
        raise InvalidInput(
            f"{argument}: more than {MAX_FILES:,} files up to {path!r}, the limit; name folders "
            "below, or a pattern such as 'docs/**/*.md'"
        )
    num_bytes = sum(file.size for file in found.values())
    if num_bytes > max_bytes:
        raise InvalidInput(
            f"{argument}: the files up to {path!r} hold {num_bytes:,} bytes; the limit is "
            f"{max_bytes:,}; name folders below, or a pattern such as 'docs/**/*.md'"
        )
