"""The cache folder: where fetched models lie, how they get in whole or not at all, and out again.

    <cache>/models/<name>@<hash>/   whole models, each with a manifest; nothing else is ever found
    <cache>/downloads/              parts of files and folders on their way
    <cache>/locks/                  one file per model being fetched

Knows files and sizes; knows no network and no catalogue.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import filelock
import pydantic
from pydantic import ConfigDict

from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed

MANIFEST = "sie-model.json"
LOCK_WAIT_S = 3600.0  # Another process may be fetching gigabytes over a slow line.
_HASH_CHARS = 12


class Manifest(pydantic.BaseModel):
    """Written last into a fetched folder: what it is and which files it must hold.

    `file` is the one that was wanted, where that was not a whole checkpoint.
    """

    model_config = ConfigDict(frozen=True)

    format_version: Literal[1] = 1
    name: str
    source: str
    repo: str | None = None
    commit: str | None = None
    file: str = ""
    revisions: tuple[str, ...] = ()
    licence: str = ""
    files: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A whole model on disk."""

    folder: Path
    manifest: Manifest

    @property
    def size_bytes(self) -> int:
        """Sum of the files' sizes."""
        return sum(self.manifest.files.values())


def folder_for(cache_dir: Path, name: str, digest: str) -> Path:
    """Return where the model of this name and content lies or will lie."""
    return cache_dir / "models" / f"{name.replace('/', '--')}@{digest[:_HASH_CHARS]}"


def work_folder(cache_dir: Path) -> Path:
    """Return the folder for things on their way, on the same file system as the models."""
    folder = cache_dir / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read(folder: Path) -> StoredModel | None:
    """Return the model in `folder` if every file of its manifest is there in its size."""
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        for name, size in manifest.files.items():
            if (folder / name).stat().st_size != size:
                return None
    except (OSError, pydantic.ValidationError):
        return None
    return StoredModel(folder, manifest)


def stored_models(cache_dir: Path) -> list[StoredModel]:
    """Return every whole model in the cache, the one fetched last first."""
    folders = sorted((cache_dir / "models").glob("*@*"), key=_age, reverse=True)
    return [model for model in map(read, folders) if model is not None]


def publish(unpacked: Path, target: Path, manifest: Manifest) -> Path:
    """Give `unpacked` its manifest and move it to `target` in one step."""
    files = {
        file.relative_to(unpacked).as_posix(): file.stat().st_size
        for file in sorted(unpacked.rglob("*"))
        if file.is_file()
    }
    write_manifest(unpacked, manifest.model_copy(update={"files": files}))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        remove(target)  # A damaged one: `read` refused it, or nobody would be publishing.
    unpacked.rename(target)
    return target


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write or replace the manifest of `folder` in one step."""
    draft = folder / f".{MANIFEST}.draft"
    draft.write_text(manifest.model_dump_json(indent=1), "utf-8")
    draft.replace(folder / MANIFEST)


def remove(folder: Path) -> None:
    """Delete a model's folder; a half-deleted one is never found."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder)


@contextmanager
def locked(cache_dir: Path, name: str, options: FetchOptions) -> Iterator[None]:
    """Hold the model's lock, against threads and processes; say so when it is another's turn.

    Raises:
        DownloadFailed: another process held the lock for an hour.
    """
    file = cache_dir / "locks" / f"{name.replace('/', '--')}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(file)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        options.notice(f"{name}: another process is fetching it; waiting for that")
        try:
            lock.acquire(timeout=LOCK_WAIT_S)
        except filelock.Timeout as error:
            raise DownloadFailed(
                f"{name}: another process has been fetching it for {LOCK_WAIT_S / 60:.0f} minutes "
                f"and holds {file}; end that process and try again"
            ) from error
    try:
        yield
    finally:
        lock.release()


def _age(folder: Path) -> float:
    try:
        return (folder / MANIFEST).stat().st_mtime
    except OSError:
        return 0.0
