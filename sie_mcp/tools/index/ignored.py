"""What a walk through folders passes over: what .gitignore says, and folders that nobody wrote.

Hidden names never come here: patterns pass over them.
"""

import os
from pathlib import PurePosixPath

from pathspec import GitIgnoreSpec

from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.opening import open_file

# Installed or made by programs, in projects that forgot to ignore them.
SKIPPED_FOLDERS = frozenset(
    {"node_modules", "bower_components", "site-packages", "venv", "__pycache__", "CVS"}
)
_RULES = ".gitignore"
MAX_RULES_BYTES = 1024 * 1024


class Ignored:
    """Answers for the names below one allowed folder; reads each .gitignore once, when met."""

    def __init__(self, start: AllowedPath) -> None:
        self._start = start
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def __call__(self, below: str, is_folder: bool) -> bool:
        """Say whether a name below the start is passed over; nearer rules win.

        Raises:
            InvalidInput: a .gitignore that cannot be read.
        """
        path = PurePosixPath(*self._start.parts, below)
        if is_folder and path.name in SKIPPED_FOLDERS:
            return True
        for folder in path.parents:
            spec = self._spec(str(folder))
            if spec is None:
                continue
            relative = str(path.relative_to(folder)) + ("/" if is_folder else "")
            is_ignored = spec.check_file(relative).include
            if is_ignored is not None:
                return is_ignored
        return False

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = self._read(folder)
        return self._specs[folder]

    def _read(self, folder: str) -> GitIgnoreSpec | None:
        root = self._start.root
        path = root / folder / _RULES
        if not path.is_file() or path.is_symlink() or not os.path.getsize(path):
            return None
        name = str(PurePosixPath(folder) / _RULES)
        with open_file(AllowedPath(root, path, name), MAX_RULES_BYTES) as file:
            return GitIgnoreSpec.from_lines(file.read().decode(errors="replace").splitlines())
