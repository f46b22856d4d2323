"""Which paths a tool may touch: what lies inside the allowed folders, nothing else.

Links and ".." are resolved before anything is decided, and a path outside is refused in the same
words whether or not it exists. Knows no file format; opens nothing (`opening` does).
"""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.patterns import is_pattern, matching_files, split_pattern

MAX_FILES = 2_000
_COMPRESSED = ".gz"


@dataclass(frozen=True, slots=True)
class AllowedPath:
    """A path with no link in it, inside an allowed folder when it was resolved.

    Attributes:
        root: The allowed folder, resolved.
        path: The resolved path.
        name: What the caller calls it; its ending says the format.
    """

    root: Path
    path: Path
    name: str

    @property
    def ending(self) -> str:
        """The ending in lower case, such as ".csv" or ".csv.gz"; "" for none."""
        return ending_of(self.name)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names to walk through from `root`."""
        return self.path.relative_to(self.root).parts


@dataclass(frozen=True, slots=True)
class Folders:
    """The allowed folders; none means that files are off."""

    allowed: tuple[Path, ...]

    def to_read(
        self, path: str, endings: Collection[str], *, argument: str = "path"
    ) -> AllowedPath:
        """Return a file that may be read.

        A relative path is looked for in each allowed folder, in order.

        Raises:
            InvalidInput: files are off, the kind is not known, or no such file inside.
        """
        inside = self.inside(path, argument)
        found = next((one for one in inside if os.path.exists(one.path)), None)
        if found is not None and os.path.isdir(found.path):
            raise InvalidInput(
                f"{argument}: {path!r} is a folder; name a file in it, or a pattern like "
                f"{path.rstrip('/') + '/**/*.md'!r}"
            )
        _check_ending(path, endings, argument)
        if found is None:
            raise InvalidInput(f"{argument}: no file {path!r} in the allowed folders: {self}")
        return found

    def to_read_all(
        self, path: str, endings: Collection[str], *, argument: str = "path"
    ) -> list[AllowedPath]:
        """Return the file of that name, or else the files that the pattern matches, sorted.

        A pattern follows no link, and takes only files of a known kind.

        Raises:
            InvalidInput: as `to_read`; nothing or too much matches.
        """
        self._check_form(path, argument)
        if not is_pattern(path):
            return [self.to_read(path, endings, argument=argument)]
        if any(os.path.isfile(one.path) for one in self.inside(path, argument)):
            return [self.to_read(path, endings, argument=argument)]
        start, parts = split_pattern(path)
        found: dict[Path, AllowedPath] = {}
        for folder in self.inside(start, argument, shown=path):
            for below in matching_files(folder.path, parts):
                if ending_of(below) in endings:
                    real = folder.path / below
                    name = str(PurePosixPath(start) / below)
                    found.setdefault(real, AllowedPath(folder.root, real, name))
                if len(found) > MAX_FILES:
                    raise InvalidInput(
                        f"{argument}: {path!r} matches more than {MAX_FILES:,} files, the limit; "
                        "name a folder below, or a more exact pattern"
                    )
        if not found:
            raise InvalidInput(
                f"{argument}: {path!r} matches no file that can be read; "
                f"known: {', '.join(endings)}; in the allowed folders: {self}"
            )
        return [found[real] for real in sorted(found)]

    def to_search(self, path: str, *, argument: str) -> AllowedPath:
        """Return a file or folder of any kind that is there.

        Raises:
            InvalidInput: files are off, or nothing of that name inside.
        """
        for inside in self.inside(path, argument):
            if os.path.exists(inside.path):
                return inside
        raise InvalidInput(f"{argument}: no file or folder {path!r} in the allowed folders: {self}")

    def to_write(self, path: str, endings: Collection[str], *, argument: str) -> AllowedPath:
        """Return the place of a new file, in a folder that exists.

        Raises:
            InvalidInput: as `to_read`, or something of that name exists: nothing is overwritten.
        """
        inside = self.inside(path, argument)
        _check_ending(path, endings, argument)
        for candidate in inside:
            if not os.path.isdir(candidate.path.parent):
                continue
            if os.path.lexists(candidate.path):
                raise InvalidInput(
                    f"{argument}: {path!r} exists and is not overwritten; choose another name"
                )
            return candidate
        raise InvalidInput(f"{argument}: the folder of {path!r} does not exist")

    def inside(self, path: str, argument: str, *, shown: str = "") -> list[AllowedPath]:
        """Resolve a path in each allowed folder and keep what lies inside of one.

        Raises:
            InvalidInput: files are off, no path of this system, or outside.
        """
        self._check_form(path, argument)
        roots = [Path(os.path.realpath(one)) for one in self.allowed if os.path.isdir(one)]
        inside: dict[Path, AllowedPath] = {}
        for root in roots:
            try:
                real = Path(os.path.realpath(root / path))
            except OSError:  # a link of /proc that may not be read
                continue
            home = next((other for other in roots if real.is_relative_to(other)), None)
            if home is not None:
                inside.setdefault(real, AllowedPath(home, real, path))
        if not inside:
            raise InvalidInput(
                f"{argument}: {(shown or path)!r} is outside the allowed folders: {self}"
            )
        return list(inside.values())

    def _check_form(self, path: str, argument: str) -> None:
        """Refuse what is no path of this system."""
        if not self.allowed:
            raise InvalidInput(
                f"{argument}: no access to files on this server; send the texts in the call"
            )
        if "\0" in path:
            raise InvalidInput(f"{argument}: {path!r} holds a null character")
        if "\\" in path:
            raise InvalidInput(
                f"{argument}: {path!r} holds a backslash; write / between folders, inside the "
                f"allowed folders: {self}"
            )
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
            raise InvalidInput(
                f"{argument}: {path!r} is a URL; only files are read: download it first"
            )
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{argument}: {path!a} holds a lone surrogate at character {error.start}"
            ) from error

    def __str__(self) -> str:
        return ", ".join(map(_described, self.allowed))


def _described(folder: Path) -> str:
    """Name an allowed folder, and what whoever starts the server has to mend."""
    if os.path.isdir(folder):
        return str(folder)
    what = "no folder" if os.path.exists(folder) else "not there"
    return f"{folder} (which is {what}: start the server with --allow and one that is)"


def ending_of(name: str) -> str:
    """Return a name's ending in lower case; of a compressed file both: ".csv.gz"."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [_COMPRESSED] else suffixes[-1:])


def _check_ending(path: str, endings: Collection[str], argument: str) -> None:
    if (ending := ending_of(path)) not in endings:
        raise InvalidInput(
            f"{argument}: {path!r} {f'is a {ending} file' if ending else 'has no ending'}; "
            f"known: {', '.join(endings)}"
        )
