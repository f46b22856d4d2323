"""Put this server into a client's file, or take it out: reads, merges, replaces.

Doing it twice changes nothing the second time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sie_mcp.errors import ConfigurationRefused
from sie_mcp.install import documents, files
from sie_mcp.install.clients import Client, Spot, merged_entry


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to a file; `backup` is None where nothing was replaced."""

    path: Path
    is_changed: bool
    backup: Path | None = None


def current_entry(client: Client, spot: Spot, name: str) -> dict[str, Any] | None:
    """Return the entry that is there, or None.

    Raises:
        ConfigurationRefused: the file cannot be read, or something else is in its place.
    """
    return _entry_in(files.read(spot.file), client, spot, name)


def put(client: Client, spot: Spot, name: str, entry: dict[str, Any]) -> Change:
    """Write an entry, over an older one of the same name.

    Raises:
        ConfigurationRefused: the file cannot be read, changed or written; it is as it was.
    """
    original = files.read(spot.file)
    old = _entry_in(original, client, spot, name)
    new = merged_entry(old or {}, entry)
    if new == old:
        return Change(original.path, is_changed=False)
    return _replace(original, client, spot, name, new)


def remove(client: Client, spot: Spot, name: str) -> Change:
    """Take an entry out; what is not there needs no taking out.

    Raises:
        ConfigurationRefused: as with `put`.
    """
    original = files.read(spot.file)
    if _entry_in(original, client, spot, name) is None:
        return Change(original.path, is_changed=False)
    return _replace(original, client, spot, name, None)


def _entry_in(
    original: files.Original, client: Client, spot: Spot, name: str
) -> dict[str, Any] | None:
    servers = documents.entries_in(documents.parse(original.text, client.form), spot.keys)
    entry = servers.get(name)
    if entry is not None and not isinstance(entry, dict):
        raise ConfigurationRefused(f"its server {name!r} is not a table")
    return entry


def _replace(
    original: files.Original, client: Client, spot: Spot, name: str, entry: dict[str, Any] | None
) -> Change:
    text = documents.with_entry(original.text, client.form, spot.keys, name, entry)
    return Change(original.path, is_changed=True, backup=files.replace(original, text))
