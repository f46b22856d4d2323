"""`sie-mcp install CLIENT`: write, print or remove the entry of this server in a client's file.

Exit codes: 0 done or nothing to do, 1 the file was left as it was, 2 a flag that cannot be right.
"""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from sie_mcp.errors import ConfigurationRefused, SettingError
from sie_mcp.install import change, claude_command, documents
from sie_mcp.install.clients import CLIENTS, Client, Spot, find_client, merged_entry, new_entry
from sie_mcp.install.places import Places
from sie_mcp.install.servers import (
    RemoteServer,
    Server,
    check_url,
    local_server,
    settings_to_pass,
)

ClientName = Annotated[str, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(CLIENTS)}.")]
Remote = Annotated[str, typer.Option(help="Use the server at this URL, not a local one.")]
TokenEnv = Annotated[
    str, typer.Option(help="With --remote: the variable that holds the bearer token.")
]
ScopeName = Annotated[
    str | None,
    typer.Option("--scope", help="user (the default), project; Claude Code also has local."),
]
Name = Annotated[str, typer.Option(help="What the client calls the server.")]
Allow = Annotated[
    list[Path] | None, typer.Option(help="Folder that tools may use; repeat for more.")
]
Env = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE, or NAME for its value of now; repeatable.")
]
IsPrinted = Annotated[bool, typer.Option("--print", help="Show the entry, change nothing.")]
IsRemoved = Annotated[bool, typer.Option("--remove", help="Take the entry out again.")]


def install(
    client_name: ClientName,
    remote: Remote = "",
    token_env: TokenEnv = "",
    scope_name: ScopeName = None,
    name: Name = "sie",
    allow: Allow = None,
    env: Env = None,
    is_printed: IsPrinted = False,
    is_removed: IsRemoved = False,
) -> None:
    """Add this server to a client: Claude Code, Claude Desktop, Cursor, VS Code or Codex."""
    try:
        client = find_client(client_name)
        scope = scope_name or next(iter(client.spots))
        spot = client.spot(scope, Places.of_user(os.environ, Path.cwd()))
        if is_removed:
            _remove(client, spot, scope, name)
            return
        entry = new_entry(client, _server(remote, token_env, allow or [], env or []))
    except SettingError as error:
        _end(str(error), 2)
    if is_printed:
        _say(f"for {spot.file}:")
        typer.echo(_by_hand(client, spot, scope, name, entry))
        return
    try:
        _put(client, spot, scope, name, entry)
    except ConfigurationRefused as error:
        _say(f"{spot.file} was left as it is: {error}")
        _say(f"to add the entry by hand, use this for {client.title}:")
        typer.echo(_by_hand(client, spot, scope, name, entry))
        raise typer.Exit(1) from error


def _server(remote: str, token_env: str, allow: list[Path], env: list[str]) -> Server:
    if not remote:
        if token_env:
            raise SettingError("--token-env goes with --remote")
        folders = [folder.expanduser() for folder in allow]
        return local_server(folders, settings_to_pass(os.environ, env))
    if allow or env:
        raise SettingError("--allow and --env are for a local server; leave them out with --remote")
    if urlsplit(remote).path in ("", "/"):
        _say(f"{remote} has no path; `sie-mcp serve` answers at /mcp")
    return RemoteServer(check_url(remote), token_env)


def _put(client: Client, spot: Spot, scope: str, name: str, entry: dict[str, Any]) -> None:
    if not _is_claudes_own(client, scope):
        _tell(client, change.put(client, spot, name, entry), "has the server", name)
        return
    old = change.current_entry(client, spot, name)
    new = merged_entry(old or {}, entry)
    if new != old:
        first = [claude_command.remove_command(name, scope)] if old is not None else []
        claude_command.run(*first, claude_command.add_command(name, scope, new))
    _tell(client, change.Change(spot.file, is_changed=new != old), "has the server", name)


def _remove(client: Client, spot: Spot, scope: str, name: str) -> None:
    try:
        if not _is_claudes_own(client, scope):
            _tell(client, change.remove(client, spot, name), "no longer has", name)
            return
        is_there = change.current_entry(client, spot, name) is not None
        if is_there:
            claude_command.run(claude_command.remove_command(name, scope))
        _tell(client, change.Change(spot.file, is_changed=is_there), "no longer has", name)
    except ConfigurationRefused as error:
        _end(f"{spot.file} was left as it is: {error}", 1)


def _is_claudes_own(client: Client, scope: str) -> bool:
    return client.name == "claude-code" and scope != "project"


def _by_hand(client: Client, spot: Spot, scope: str, name: str, entry: dict[str, Any]) -> str:
    if _is_claudes_own(client, scope):
        return shlex.join(claude_command.add_command(name, scope, entry))
    return documents.snippet(client.form, spot.keys, name, entry).rstrip("\n")


def _tell(client: Client, done: change.Change, claim: str, name: str) -> None:
    already = "" if done.is_changed else " already"
    typer.echo(f"{client.title}{already} {claim} {name!r} ({done.path})")
    if done.backup:
        typer.echo(f"the file as it was: {done.backup}")
    if done.is_changed:
        typer.echo(f"restart {client.title}, or reload its servers, to see the change")


def _say(text: str) -> None:
    typer.echo(f"sie-mcp: {text}", err=True)


def _end(text: str, code: int) -> Any:
    _say(text)
    raise typer.Exit(code)
