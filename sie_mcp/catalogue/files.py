"""The catalogue's TOML files: the built-in ones and the user's additions.

models.toml holds the starter models and the defaults, models/ the others, a file a family.
"""

import importlib.resources
import tomllib
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path

import pydantic

from sie_mcp.catalogue.entries import Catalogue
from sie_mcp.errors import SettingError


@cache
def load_catalogue(extra_file: Path | None = None) -> Catalogue:
    """Read the built-in catalogue and the user's additions; the user's entries win.

    Raises:
        SettingError: a file that cannot be read, holds an unknown field, or names a default that
            no entry has.
    """
    catalogue = _built_in()
    if extra_file is not None:
        try:
            extra = _parse(extra_file.read_text("utf-8"), str(extra_file))
        except OSError as error:
            raise SettingError(f"catalogue_file {extra_file} cannot be read: {error}") from error
        catalogue = _merge(catalogue, extra)
    _check(catalogue, str(extra_file or "models.toml"))
    return catalogue


def _built_in() -> Catalogue:
    folder = importlib.resources.files("sie_mcp.catalogue")
    starter = _read(folder / "models.toml")
    files = sorted((folder / "models").iterdir(), key=lambda file: file.name)
    others = [_read(file) for file in files if file.name.endswith(".toml")]
    models = (entry for one in (starter, *others) for entry in one.models)
    return Catalogue(models=tuple(models), defaults=starter.defaults)


def _read(file: Traversable) -> Catalogue:
    return _parse(file.read_text("utf-8"), file.name)


def _merge(built_in: Catalogue, extra: Catalogue) -> Catalogue:
    names = {entry.name for entry in extra.models}
    kept = tuple(entry for entry in built_in.models if entry.name not in names)
    return Catalogue(models=extra.models + kept, defaults={**built_in.defaults, **extra.defaults})


def _check(catalogue: Catalogue, origin: str) -> None:
    names = [entry.name for entry in catalogue.models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SettingError(f"{origin}: two entries are named {', '.join(sorted(twice))}")
    for entry in catalogue.models:
        base = catalogue.find(entry.base) if entry.base else None
        if entry.base and (base is None or base.base):
            raise SettingError(
                f"{origin}: {entry.name} has base {entry.base!r}, which is not an entry with files "
                "of its own"
            )
    for role, defaults in catalogue.defaults.items():
        for name in defaults:
            if catalogue.find(name) is None:
                raise SettingError(f"{origin}: defaults.{role} names {name!r}, not an entry")


def _parse(text: str, origin: str) -> Catalogue:
    try:
        return Catalogue.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, pydantic.ValidationError) as error:
        raise SettingError(f"{origin}: {error}") from error
