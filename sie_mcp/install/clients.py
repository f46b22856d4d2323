"""The clients that can be told of this server: their files, their keys, their form of an entry.

A table and what reads it; nothing here opens a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sie_mcp.errors import SettingError
from sie_mcp.install.places import Places
from sie_mcp.install.servers import LocalServer, RemoteServer, Server

Scope = Literal["user", "project", "local"]
Form = Literal["json", "toml"]

# Codex waits ten seconds for a server; on a cold disk Python alone can take half of that.
CODEX_START_S = 30
# These fields of an entry are ours. All others are the user's, and stay.
OWN_FIELDS = {"type", "command", "args", "url", "headers", "bearer_token_env_var"}


@dataclass(frozen=True, slots=True)
class Spot:
    """A place for entries: a file, and the keys that lead to its table of servers."""

    file: Path
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """A client.

    Attributes:
        spots: Where each scope's entries lie; the first scope is the default.
        form: How its files are written.
        is_typed: Whether an entry says `stdio` or `http`.
        reference: How an entry refers to a variable of the environment; "" where it cannot.
        takes_urls: Whether remote servers are part of the file.
        needs_folders: Whether it starts servers in a folder that has nothing to do with the work.
    """

    name: str
    title: str
    spots: Mapping[Scope, Callable[[Places], Spot]]
    form: Form = "json"
    is_typed: bool = False
    reference: str = ""
    takes_urls: bool = True
    needs_folders: bool = False

    def spot(self, scope: str | None, places: Places) -> Spot:
        """Return where entries of a scope lie; None is the default scope.

        Raises:
            SettingError: the client has no such scope.
        """
        for known, find in self.spots.items():
            if scope is None or scope == known:
                return find(places)
        raise SettingError(f"{self.title} has no scope {scope!r}; known: {', '.join(self.spots)}")


CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            {
                "user": lambda at: Spot(at.claude / ".claude.json", ("mcpServers",)),
                "project": lambda at: Spot(at.project / ".mcp.json", ("mcpServers",)),
                "local": lambda at: Spot(
                    at.claude / ".claude.json", ("projects", str(at.project), "mcpServers")
                ),
            },
            is_typed=True,
            reference="${%s}",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            {
                "user": lambda at: Spot(
                    at.settings / "Claude" / "claude_desktop_config.json", ("mcpServers",)
                )
            },
            takes_urls=False,
            needs_folders=True,
        ),
        Client(
            "cursor",
            "Cursor",
            {
                "user": lambda at: Spot(at.home / ".cursor" / "mcp.json", ("mcpServers",)),
                "project": lambda at: Spot(at.project / ".cursor" / "mcp.json", ("mcpServers",)),
            },
            reference="${env:%s}",
        ),
        Client(
            "vscode",
            "VS Code",
            {
                "user": lambda at: Spot(at.settings / "Code" / "User" / "mcp.json", ("servers",)),
                "project": lambda at: Spot(at.project / ".vscode" / "mcp.json", ("servers",)),
            },
            is_typed=True,
            reference="${env:%s}",
        ),
        Client(
            "codex",
            "Codex",
            {
                "user": lambda at: Spot(at.codex / "config.toml", ("mcp_servers",)),
                "project": lambda at: Spot(at.project / ".codex" / "config.toml", ("mcp_servers",)),
            },
            form="toml",
        ),
    )
}


def find_client(name: str) -> Client:
    """Return a client by its name.

    Raises:
        SettingError: none of that name is known; names those that are.
    """
    if name not in CLIENTS:
        raise SettingError(f"no client {name!r}; known: {', '.join(CLIENTS)}")
    return CLIENTS[name]


def new_entry(client: Client, server: Server) -> dict[str, Any]:
    """Write a server in the words of a client.

    Raises:
        SettingError: the client takes no such server, or not without more.
    """
    if isinstance(server, RemoteServer):
        return _remote(client, server)
    return _local(client, server)


def merged_entry(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Put a new entry over an old one: fields and variables that are not ours stay as they are."""
    kept = {key: value for key, value in old.items() if key not in OWN_FIELDS}
    if "command" not in new:
        kept.pop("env", None)
    merged = {**new, **kept}
    if "env" in new:
        merged["env"] = {**kept.get("env", {}), **new["env"]}
    return merged


def _local(client: Client, server: LocalServer) -> dict[str, Any]:
    if client.needs_folders and "--allow" not in server.args and "SIE_MCP_ALLOW" not in server.env:
        raise SettingError(
            f"{client.title} starts servers in a folder of its own: say where files may be read "
            "and written, such as --allow ~/Documents"
        )
    entry: dict[str, Any] = {"type": "stdio"} if client.is_typed else {}
    entry |= {"command": server.command, "args": list(server.args)}
    if server.env:
        entry["env"] = dict(server.env)
    if client.form == "toml":
        entry["startup_timeout_sec"] = CODEX_START_S
    return entry


def _remote(client: Client, server: RemoteServer) -> dict[str, Any]:
    if not client.takes_urls:
        raise SettingError(
            f"{client.title} takes remote servers as connectors, not from its file: open Settings, "
            f"Connectors, Add custom connector and give it {server.url}"
        )
    entry: dict[str, Any] = {"type": "http"} if client.is_typed else {}
    entry["url"] = server.url
    if server.token_env and client.reference:
        entry["headers"] = {"Authorization": f"Bearer {client.reference % server.token_env}"}
    elif server.token_env:
        entry["bearer_token_env_var"] = server.token_env
    return entry
