"""Claude Code's own command, for the file that it alone may write.

While it runs, Claude Code keeps `.claude.json` in memory and writes it whole: an entry that another
program adds meanwhile is lost. Its command knows how to share the file.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from sie_mcp.errors import ConfigurationRefused

LIMIT_S = 60.0


def add_command(name: str, scope: str, entry: dict[str, Any]) -> list[str]:
    """Return the command that adds an entry."""
    text = json.dumps(entry, ensure_ascii=False)
    return ["claude", "mcp", "add-json", "--scope", scope, name, text]


def remove_command(name: str, scope: str) -> list[str]:
    """Return the command that removes an entry."""
    return ["claude", "mcp", "remove", "--scope", scope, name]


def run(*commands: Sequence[str]) -> None:
    """Run commands, one after the other.

    Raises:
        ConfigurationRefused: there is no such program, or a command failed; with what it said.
    """
    program = shutil.which("claude")
    if program is None:
        raise ConfigurationRefused(
            "the command `claude` is not on the PATH, and nothing else may write this file while "
            "Claude Code runs; run the command below where it is, or use --scope project"
        )
    for command in commands:
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationRefused(f"`claude` did not finish ({error})") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-300:]
            raise ConfigurationRefused(f"`claude {' '.join(command[1:3])}` failed: {said}")
