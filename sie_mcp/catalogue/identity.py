"""What a model's numbers depend on, as one short text: other files or settings give another.

Knows files and their dates; reads none that is large.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sie_mcp.catalogue.store import MANIFEST, Manifest, read

# Larger ones are weights: their sizes and dates stand for them.
_READ_BYTES = 1024 * 1024
_HEX_CHARS = 32


@dataclass(frozen=True, slots=True)
class Identity:
    """Folders whose files make a model, and what else changes its numbers.

    Attributes:
        folders: A fetched one is known by its manifest, so that it is the same on every machine.
        settings: The catalogue's, the dtype, the version of this program.
    """

    folders: tuple[Path, ...]
    settings: str

    def revision(self) -> str:
        """Return the text; reads small files. May block."""
        digest = hashlib.sha256(self.settings.encode())
        for folder in self.folders:
            stored = read(folder)
            if stored is None:
                _add_files(digest, folder)
            else:
                _add_manifest(digest, folder, stored.manifest)
        return digest.hexdigest()[:_HEX_CHARS]


def _add_manifest(digest: "hashlib._Hash", folder: Path, manifest: Manifest) -> None:
    """Add what was fetched, but not the names that led to it."""
    digest.update(f"{folder.name} {manifest.model_dump_json(exclude={'revisions'})}".encode())


def _add_files(digest: "hashlib._Hash", folder: Path) -> None:
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.name == MANIFEST:
            continue
        stat = file.stat()
        name = file.relative_to(folder).as_posix()
        digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        if stat.st_size <= _READ_BYTES:
            digest.update(file.read_bytes())
