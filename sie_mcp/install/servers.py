"""What a client is told to use: a command on this machine, or a URL. Knows no client's words."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from sie_mcp.config import PREFIX, load_config
from sie_mcp.errors import SettingError


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A command that a client starts and talks to over its stdin and stdout."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A URL, and the variable of the client's environment that holds the bearer token; "": none."""

    url: str
    token_env: str = ""


Server = LocalServer | RemoteServer


def local_server(folders: Sequence[Path], env: Mapping[str, str]) -> LocalServer:
    """Return the command that starts this very installation, allowed to use these folders."""
    command, *args = launch(Path(sys.executable), Path(sys.prefix))
    allowed = [part for folder in folders for part in ("--allow", str(folder.absolute()))]
    return LocalServer(command, (*args, "stdio", *allowed), dict(env))


def launch(python: Path, prefix: Path) -> tuple[str, ...]:
    """Return a command line that still works when this process and its shell are gone.

    An environment that uvx or pipx made for one run can be swept away at any time: there the tool
    that made it is named. Everywhere else it is the interpreter itself, by its absolute path.
    """
    parts = prefix.parts
    if any(part.startswith(("archive-v", "environments-v")) for part in parts):
        return (shutil.which("uvx") or "uvx", "--from", _requirement(), "sie-mcp")
    if "pipx" in parts and ".cache" in parts:
        return (shutil.which("pipx") or "pipx", "run", "--spec", _requirement(), "sie-mcp")
    # -P: in a project that holds an anyio.py, that file must not be run in the library's place.
    return (str(python.absolute()), "-P", "-m", "sie_mcp")


def settings_to_pass(environ: Mapping[str, str], extra: Sequence[str]) -> dict[str, str]:
    """Return the variables for an entry: our settings of now, and those named by hand.

    Clients hand few variables on to what they start. Paths become absolute, because the client
    starts the server in another folder.

    Args:
        environ: The environment of now.
        extra: NAME=VALUE, or NAME for its value of now.

    Raises:
        SettingError: a setting is unknown or unparsable, or a name has no value.
    """
    config = load_config().model_dump()
    env = {}
    for name, value in sorted(environ.items()):
        if name.upper().startswith(PREFIX) and value:
            parsed = config[name.upper().removeprefix(PREFIX).lower()]
            env[name.upper()] = _text(parsed, value)
    for pair in extra:
        name, separator, value = pair.partition("=")
        if not separator and name not in environ:
            raise SettingError(f"--env {pair!r}: no such variable here; give {name}=VALUE")
        env[name] = value if separator else environ[name]
    return env


def check_url(url: str) -> str:
    """Return the URL of a remote server.

    Raises:
        SettingError: not an address that a client could use.
    """
    try:
        parsed = pydantic.HttpUrl(url)
    except pydantic.ValidationError as error:
        raise SettingError(
            f"--remote {url!r} is no URL; give one such as https://mcp.example.com/mcp"
        ) from error
    if parsed.username or parsed.password:
        raise SettingError("--remote: keep the secret out of the URL; use --token-env NAME")
    return url


def _requirement() -> str:
    """Name what was installed: the gateway alone, or with the engine."""
    has_engine = importlib.util.find_spec("torch") is not None
    return "sie-mcp[engine]" if has_engine else "sie-mcp"


def _text(parsed: object, given: str) -> str:
    if isinstance(parsed, Path):
        return str(parsed)
    if isinstance(parsed, tuple) and parsed and all(isinstance(one, Path) for one in parsed):
        return os.pathsep.join(map(str, parsed))
    return given
