"""Which clients have an entry of this server, and whether what it names is there. Runs nothing.

A project's file can come from anybody, so the commands in it are looked for, not tried.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sie_mcp.doctor.findings import Finding
from sie_mcp.errors import ConfigurationRefused
from sie_mcp.install import documents, files
from sie_mcp.install.clients import CLIENTS, Client
from sie_mcp.install.places import Places

NAMES = {"sie", "sie-mcp"}


def entries(places: Places) -> list[Finding]:
    """Look into every client's files."""
    found = [
        finding
        for client in CLIENTS.values()
        for scope in client.spots
        for finding in _in_scope(client, scope, places)
    ]
    if found:
        return found
    fix = f"sie-mcp install CLIENT, which is one of {', '.join(CLIENTS)}"
    return [Finding("clients", "warn", "no client knows this server", fix)]


def _in_scope(client: Client, scope: str, places: Places) -> Iterator[Finding]:
    spot = client.spot(scope, places)
    label = f"{client.name} ({scope})"
    try:
        data = documents.parse(files.read(spot.file).text, client.form)
        servers = documents.entries_in(data, spot.keys)
    except ConfigurationRefused as error:
        yield Finding(label, "warn", f"{spot.file}: {error}", "correct the file, or ignore this")
        return
    for name, entry in servers.items():
        if isinstance(entry, dict) and _is_ours(name, entry):
            yield _judge(client, scope, label, name, entry)


def _is_ours(name: str, entry: dict[str, Any]) -> bool:
    args = entry.get("args")
    words = [entry.get("command"), *(args if isinstance(args, list) else [])]
    return name in NAMES or any(
        isinstance(word, str) and Path(word).stem in ("sie-mcp", "sie_mcp") for word in words
    )


def _judge(client: Client, scope: str, label: str, name: str, entry: dict[str, Any]) -> Finding:
    again = f"sie-mcp install {client.name} --scope {scope} --name {name}"
    command, url = entry.get("command"), entry.get("url")
    if isinstance(url, str):
        return Finding(label, "ok", f"{name!r} is the server at {url}")
    if not isinstance(command, str):
        return Finding(label, "fail", f"{name!r} has neither command nor url", again)
    path = Path(command).expanduser()
    if not path.is_absolute():
        if shutil.which(command) is None:
            return Finding(label, "fail", f"{name!r}: {command} is not on the PATH", again)
        text = f"{name!r} starts {command}, which the client looks for on a PATH of its own"
        return Finding(label, "ok", text)
    if not path.is_file() or not os.access(path, os.X_OK):
        return Finding(label, "fail", f"{name!r}: {command} is no program", again)
    return Finding(label, "ok", f"{name!r} starts {command}")
