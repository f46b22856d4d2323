"""What is on disk, for people: one row a model, and removal. Asks no network."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from sie_mcp.catalogue import fetch, store
from sie_mcp.catalogue.entries import Catalogue, Entry
from sie_mcp.catalogue.options import FetchOptions


@dataclass(frozen=True, slots=True)
class Row:
    """A known model. `folder` is None where it is not on disk; then the size is the catalogue's."""

    name: str
    size_bytes: int
    source: str
    folder: Path | None
    licence: str
    attribution: str = ""
    family: str = ""
    architecture: str = ""
    tasks: tuple[str, ...] = ()
    description: str = ""
    is_starter: bool = False


def rows(catalogue: Catalogue, cache_dir: Path) -> list[Row]:
    """List the catalogue's models, then the others that were fetched from the hub."""
    listed = [
        entry_row(entry, fetch.find_local(entry, cache_dir), cache_dir)
        for entry in catalogue.models
    ]
    shown = {row.folder for row in listed}
    others = [
        hub_row(stored.manifest.name, stored.folder, cache_dir)
        for stored in store.stored_models(cache_dir)
        if stored.folder not in shown
    ]
    return listed + others


def entry_row(entry: Entry, folder: Path | None, cache_dir: Path) -> Row:
    """Describe a catalogue entry whose files are in `folder`, or nowhere yet."""
    sources = " or ".join(source.kind for source in entry.sources)
    return Row(
        name=entry.name,
        family=entry.family,
        architecture=entry.architecture,
        tasks=entry.tasks,
        description=entry.description,
        is_starter=entry.starter,
        size_bytes=_size(folder) if folder else entry.size_bytes,
        source=_origin(folder, cache_dir) if folder else sources,
        folder=folder,
        licence=entry.licence,
        attribution=entry.attribution,
    )


def hub_row(name: str, folder: Path, cache_dir: Path) -> Row:
    """Describe a model that the catalogue does not know."""
    stored = store.read(folder)
    licence = stored.manifest.licence if stored else ""
    return Row(name, _size(folder), _origin(folder, cache_dir), folder, licence)


def remove(name: str, entry: Entry | None, cache_dir: Path) -> int:
    """Delete every copy of the model in our cache and what is left of broken downloads.

    The Hugging Face cache and folders given by path are not ours and stay.

    Returns:
        The number of bytes of the copies deleted; 0 if there were none.
    """
    names = {name, entry.name if entry else name}
    names |= {source.repo for source in entry.sources if source.repo} if entry else set()
    freed = 0
    with store.locked(cache_dir, entry.name if entry else f"hub/{name}", FetchOptions()):
        for stored in store.stored_models(cache_dir):
            if names & {stored.manifest.name, stored.manifest.repo}:
                freed += stored.size_bytes
                store.remove(stored.folder)
        for known in names:
            pattern = store.folder_for(cache_dir, known, "*").name
            for leftover in store.work_folder(cache_dir).glob(pattern):
                shutil.rmtree(leftover)
    return freed


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _origin(folder: Path, cache_dir: Path) -> str:
    stored = store.read(folder)
    if stored is not None and cache_dir in folder.parents:
        return stored.manifest.source
    return "Hugging Face cache" if "snapshots" in folder.parts else "path"
