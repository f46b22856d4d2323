"""Takes a model's files out of a zip archive; nothing else comes out, and nothing is executed.

Knows names, sizes and kinds of members; knows nothing of where the archive came from.
"""

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from sie_mcp.catalogue.download import refuse_full_disk
from sie_mcp.errors import DownloadFailed

MAX_UNPACKED_BYTES = 16 * 1024**3
MAX_FILES = 1000
SUFFIXES = frozenset({".json", ".txt", ".safetensors", ".onnx", ".model"})
_LEGAL = ("LICENSE", "LICENCE", "NOTICE", "COPYING", "ATTRIBUTION")
_LEGAL_SUFFIXES = {"", ".md", ".rst"}
_CHUNK_BYTES = 1024 * 1024


def take_out(archive: Path, prefix: str, into: Path, *, suffixes: frozenset[str] = SUFFIXES) -> int:
    """Write the model files under `prefix` into the new folder `into`; return how many.

    Pickles, code and everything else that is neither weights, configuration, tokenizer nor licence
    stays in the archive; other `suffixes` are for formats that a caller reads itself.

    Raises:
        DownloadFailed: the archive is broken, holds a name that leaves the folder or a link, or
            unpacks to more than the limit.
        OSError: the disk is full or refuses.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            wanted = _wanted(opened, prefix, suffixes)
            refuse_full_disk(into.parent, _refuse_too_much(wanted))
            into.mkdir(parents=True)
            for name, member in wanted.items():
                _write(opened, member, into / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DownloadFailed(f"{archive.name} is a broken archive: {error}") from error
    return len(wanted)


def _wanted(
    archive: zipfile.ZipFile, prefix: str, suffixes: frozenset[str]
) -> dict[str, zipfile.ZipInfo]:
    wanted: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        _refuse_escape(member)
        name = member.filename.removeprefix(prefix)
        if name == member.filename or member.is_dir() or not _is_model_file(name, suffixes):
            continue
        if name in wanted:
            raise DownloadFailed(f"the archive holds {member.filename} twice")
        wanted[name] = member
    if not wanted:
        raise DownloadFailed(f"the archive holds no model files under {prefix}")
    return wanted


def _refuse_escape(member: zipfile.ZipInfo) -> None:
    path = PurePosixPath(member.filename)
    is_bad_name = (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in member.filename
        or ":" in member.filename.partition("/")[0]
        or "\0" in member.orig_filename
    )
    if is_bad_name:
        raise DownloadFailed(f"the archive holds the unsafe name {member.filename!r}")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DownloadFailed(f"the archive holds the link {member.filename!r}; links are refused")


def _is_model_file(name: str, suffixes: frozenset[str]) -> bool:
    path = PurePosixPath(name)
    is_legal = path.name.upper().startswith(_LEGAL) and path.suffix in _LEGAL_SUFFIXES
    return path.suffix in suffixes or is_legal


def _refuse_too_much(wanted: dict[str, zipfile.ZipInfo]) -> int:
    """Return how many bytes it unpacks to."""
    total = sum(member.file_size for member in wanted.values())
    if total > MAX_UNPACKED_BYTES or len(wanted) > MAX_FILES:
        raise DownloadFailed(
            f"the archive unpacks to {len(wanted)} files of {total} bytes; the limits are "
            f"{MAX_FILES} files and {MAX_UNPACKED_BYTES} bytes"
        )
    return total


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    # zipfile reads no more than the size that the directory states, and checks the CRC at the end.
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("xb") as sink:
        while chunk := source.read(_CHUNK_BYTES):
            sink.write(chunk)
