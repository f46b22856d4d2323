"""A user's folders for a test: none of them is a real one."""

from pathlib import Path

from sie_mcp.install.places import Places


def places_in(folder: Path) -> Places:
    home = folder / "home"
    return Places(
        home=home,
        settings=home / ".config",
        claude=home,
        codex=home / ".codex",
        project=folder / "project",
    )
