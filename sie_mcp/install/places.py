"""The folders in which clients keep their configuration. Knows no client.

Clients let their own variables move these folders, which is why the environment is handed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import platformdirs


@dataclass(frozen=True, slots=True)
class Places:
    """One user on one machine, in one project.

    Attributes:
        home: The user's home folder.
        settings: Where desktop applications keep their settings, one folder each.
        claude: The folder of Claude Code's own file.
        codex: Codex's folder.
        project: The folder that project-wide configuration belongs to.
    """

    home: Path
    settings: Path
    claude: Path
    codex: Path
    project: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str], project: Path) -> Self:
        """Find the folders of this user; a variable that is set and empty counts as not set."""
        home = Path.home()
        return cls(
            home=home,
            settings=platformdirs.user_config_path(appname=None, appauthor=False, roaming=True),
            claude=Path(environ.get("CLAUDE_CONFIG_DIR") or home),
            codex=Path(environ.get("CODEX_HOME") or home / ".codex"),
            project=project.absolute(),
        )
