"""API keys: a TOML file with their hashes, what each may do, read again when it changes.

The keys themselves are nowhere but with their holders. They are 256 random bits, so one round of
SHA-256 is as good as a slow hash.
"""

import datetime
import hashlib
import hmac
import logging
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import Field

from sie_mcp import metrics
from sie_mcp.access.bearer import bearer_of
from sie_mcp.access.principal import CONTROL, NO_LIMITS, RUN, CallerLimits, Principal
from sie_mcp.errors import InvalidInput, NotAuthenticated, SettingError

logger = logging.getLogger(__name__)

KEY_PREFIX = "sie_"
HASH_PREFIX = "sha256:"
MAX_FILE_BYTES = 1024 * 1024
# Each call is compared with all of them.
MAX_KEYS = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")

AtLeastOne = Annotated[int, Field(ge=1)]
# Gives the tools of some names, of which one may stand for several; SettingError for an unknown.
ToolNames = Callable[[Sequence[str]], Sequence[str]]


class KeyEntry(pydantic.BaseModel):
    """One key of the file."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    hash: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    requests_per_minute: AtLeastOne | None = None
    tokens_per_minute: AtLeastOne | None = None
    max_concurrent: AtLeastOne | None = None
    models: list[str] | None = None
    tools: list[str] | None = None
    control: bool = False
    expires: datetime.date | None = None

    def principal(self, name: str, defaults: CallerLimits) -> Principal:
        """Return who holds the key."""
        own = CallerLimits(self.requests_per_minute, self.tokens_per_minute, self.max_concurrent)
        return Principal(
            name=f"key:{name}",
            scopes=frozenset({RUN, CONTROL} if self.control else {RUN}),
            limits=own.or_else(defaults),
            models=None if self.models is None else tuple(self.models),
            tools=None if self.tools is None else tuple(self.tools),
        )


class KeyFile(pydantic.BaseModel):
    """The file: `[keys.NAME]` for each."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    keys: Annotated[dict[str, KeyEntry], Field(min_length=1, max_length=MAX_KEYS)]


class Keys:
    """Identifies callers by their keys.

    A file that cannot be read after a change leaves the keys as they were, with an error in the
    log: a slip in it must not lock everyone out. To revoke a key, see that it is read.

    Args:
        path: The file; a mounted secret that is swapped for another is noticed.
        defaults: Limits of keys that set none.
        tool_names: What a key's `tools` may name; without it, for whom has no tools, anything.

    Raises:
        SettingError: the file is missing or wrong.
    """

    def __init__(
        self,
        path: Path,
        defaults: CallerLimits = NO_LIMITS,
        tool_names: ToolNames | None = None,
    ) -> None:
        self._path = path
        self._defaults = defaults
        self._tool_names = tool_names
        try:
            self._version = _version(path)
            self._entries = read_keys(path, tool_names)
        except (OSError, InvalidInput) as error:
            raise SettingError(f"api_keys_file: {error}") from error
        self._note(is_good=True)

    async def identify(self, headers: Mapping[str, str]) -> Principal:
        """Return whose key a request has, in Authorization or X-API-Key.

        Raises:
            NotAuthenticated: it has none, or one that is not in the file or has expired.
        """
        self._read_again()
        given = headers.get("x-api-key") or bearer_of(headers)
        digest = HASH_PREFIX + hashlib.sha256(given.encode()).hexdigest()
        found: tuple[str, KeyEntry] | None = None
        for name, entry in self._entries.items():
            # Each is compared in full, whichever is right.
            if hmac.compare_digest(entry.hash, digest):
                found = name, entry
        if found is None:
            raise NotAuthenticated("this key is not known here; ask who runs the server for one")
        name, entry = found
        if entry.expires is not None and entry.expires < _today():
            raise NotAuthenticated(f"the key {name!r} expired on {entry.expires}")
        return entry.principal(name, self._defaults)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _read_again(self) -> None:
        try:
            version = _version(self._path)
            if version == self._version:
                return
            self._version = version
            self._entries = read_keys(self._path, self._tool_names)
        except (OSError, InvalidInput) as error:
            if self._is_good:
                logger.error("keys stay as they were: %s", error)  # noqa: TRY400 (it says it all)
            self._note(is_good=False)
            return
        self._note(is_good=True)
        logger.info("keys were read again num_keys=%d", len(self._entries))

    def _note(self, *, is_good: bool) -> None:
        self._is_good = is_good
        metrics.KEY_FILE_OK.set(is_good)


def new_key(name: str) -> tuple[str, str]:
    """Return a new key and its entry for the file.

    Raises:
        InvalidInput: the name cannot be one.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"{name!r} cannot name a key; letters, digits, _ and -, at most 63, would work"
        )
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return key, f'[keys.{name}]\nhash = "{HASH_PREFIX}{digest}"\n'


def read_keys(path: Path, tool_names: ToolNames | None = None) -> dict[str, KeyEntry]:
    """Read the file; with `tool_names` entries hold every tool that their names stand for.

    Raises:
        OSError: it cannot be read.
        InvalidInput: it is not what such a file is; values are not repeated.
    """
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"{path} is over {MAX_FILE_BYTES:,} bytes")
    try:
        entries = KeyFile.model_validate(tomllib.loads(content.decode())).keys
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(one) for one in first["loc"])
        raise InvalidInput(f"{path}: {where}: {first['msg']}") from error
    wrong = [name for name in entries if _NAME.fullmatch(name) is None]
    if wrong:
        raise InvalidInput(f"{path}: {wrong[0]!r} cannot name a key")
    if len({entry.hash for entry in entries.values()}) < len(entries):
        raise InvalidInput(f"{path}: two keys have the same hash")
    if tool_names is None:
        return entries
    return {name: _with_tools(path, name, entry, tool_names) for name, entry in entries.items()}


def _with_tools(path: Path, name: str, entry: KeyEntry, tool_names: ToolNames) -> KeyEntry:
    if not entry.tools:
        return entry
    try:
        return entry.model_copy(update={"tools": list(tool_names(entry.tools))})
    except SettingError as error:
        raise InvalidInput(f"{path}: keys.{name}.{error}") from error


def _version(path: Path) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()
