"""The door to models' files: find them on disk, or fetch them from the first source that delivers.

All calls block, may come from any thread, and are safe between processes: one fetches, others wait.
"""

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sie_mcp.catalogue import hub, store, wheel
from sie_mcp.catalogue.completeness import missing_part
from sie_mcp.catalogue.entries import Entry, Source, is_hub_id, is_revision
from sie_mcp.catalogue.options import FetchOptions, Outage, Progress
from sie_mcp.errors import DiskFull, DownloadFailed, ModelGated, ModelNotFound, SieError

__all__ = [
    "FetchOptions",
    "Outage",
    "Progress",
    "fetch_entry",
    "fetch_hub",
    "find_hub",
    "find_local",
]

HUB_PATIENCE_S = 5.0  # Where another source follows; a hub that is there answers in under a second.


def find_local(entry: Entry, cache_dir: Path) -> Path | None:
    """Return the folder of the entry's files if they are on disk and whole; asks no network."""
    for source in entry.sources:
        if found := _find_source(entry, source, cache_dir):
            return found
    return None


def fetch_entry(entry: Entry, cache_dir: Path, *, options: FetchOptions) -> Path:
    """Return the folder of the entry's files, fetched if need be.

    Raises:
        ModelNotFound: it has only hub sources, and the hub has no such repository.
        DownloadFailed: no source delivered; the message gives each one's reason and the command.
        ModelGated: as above, where to accept the model's terms would help.
        DiskFull: there is no room; what has arrived stays, to go on from.
    """
    if found := find_local(entry, cache_dir):
        return found
    _refuse_offline(entry.name, options)
    with (
        _disk_errors_explained(entry.name, cache_dir),
        store.locked(cache_dir, entry.name, options),
    ):
        return find_local(entry, cache_dir) or _try_sources(entry, cache_dir, options)


def find_hub(repo: str, revision: str | None, cache_dir: Path) -> Path | None:
    """Return a whole copy of the hub repository, from our cache or the Hugging Face cache."""
    if not is_hub_id(repo) or not is_revision(revision or hub.DEFAULT_REVISION):
        return None
    return hub.find(repo, revision, cache_dir)


def fetch_hub(repo: str, revision: str | None, cache_dir: Path, *, options: FetchOptions) -> Path:
    """Return the folder of any hub repository's model files, fetched if need be.

    A branch that is on disk is not compared with the hub again; remove it to get a newer one.

    Raises:
        ModelNotFound: no hub id, or the hub has no such repository or revision.
        DownloadFailed: the hub did not deliver; the message gives the reason and the command.
        ModelGated: as above, where to accept the model's terms would help.
        DiskFull: there is no room; what has arrived stays, to go on from.
    """
    if not is_hub_id(repo) or not is_revision(revision or hub.DEFAULT_REVISION):
        name = f"{repo}@{revision}" if revision else repo
        raise ModelNotFound(f"{name!r} is no hub id; it looks like org/name or org/name@revision")
    if found := hub.find(repo, revision, cache_dir):
        return found
    _refuse_offline(repo, options)
    with _disk_errors_explained(repo, cache_dir), store.locked(cache_dir, f"hub/{repo}", options):
        if found := hub.find(repo, revision, cache_dir):
            return found
        try:
            return hub.fetch(repo, revision, cache_dir, options, patience_s=options.timeout_s)
        except ModelNotFound as error:
            raise ModelNotFound(f"no model {repo!r}: {error}") from error
        except DownloadFailed as error:
            raise _nothing_delivered(repo, {f"hub {repo}": error}) from error


def _find_source(entry: Entry, source: Source, cache_dir: Path) -> Path | None:
    match source.kind:
        case "hub":
            return hub.find(source.repo, source.revision, cache_dir, file=source.file)
        case "wheel":
            return wheel.find(entry, source, cache_dir)
        case "path":
            return None if _missing_part(source) else _local_folder(source)


def _try_sources(entry: Entry, cache_dir: Path, options: FetchOptions) -> Path:
    reasons: dict[str, SieError] = {}
    for source in entry.sources:
        is_last = source is entry.sources[-1]
        try:
            return _fetch_source(entry, source, cache_dir, options, is_last=is_last)
        except (DownloadFailed, ModelNotFound) as error:
            reasons[str(source)] = error
            if not is_last:
                options.notice(f"{entry.name}: {source}: {error}; trying the next source")
    if reasons and all(isinstance(error, ModelNotFound) for error in reasons.values()):
        raise ModelNotFound(f"no model {entry.name!r}: {_listed(reasons)}")
    raise _nothing_delivered(entry.name, reasons)


def _fetch_source(
    entry: Entry, source: Source, cache_dir: Path, options: FetchOptions, *, is_last: bool
) -> Path:
    match source.kind:
        case "hub":
            if entry.name in options.allow_remote_code:
                names = (*options.allow_remote_code, source.repo)
                options = replace(options, allow_remote_code=names)
            limit_s = options.timeout_s if is_last else min(HUB_PATIENCE_S, options.timeout_s)
            with store.locked(cache_dir, f"hub/{source.repo}", options):
                return hub.fetch(
                    source.repo,
                    source.revision,
                    cache_dir,
                    options,
                    patience_s=limit_s,
                    file=source.file,
                )
        case "wheel":
            return wheel.fetch(entry, source, cache_dir, options)
        case "path":
            raise DownloadFailed(_missing_part(source))


def _local_folder(source: Source) -> Path:
    assert source.path is not None  # The entry's own check.
    return source.path.expanduser().absolute()


def _missing_part(source: Source) -> str:
    """Return what a folder lacks; empty if nothing is missing."""
    folder = _local_folder(source)
    if source.file:
        return "" if (folder / source.file).is_file() else f"no {source.file}"
    return missing_part(folder)


def _refuse_offline(name: str, options: FetchOptions) -> None:
    if options.offline:
        raise DownloadFailed(
            f"{name} is not on disk and offline is set; run `sie-mcp models pull {name}` where a "
            "hub or a package index can be reached"
        )


def _nothing_delivered(name: str, reasons: Mapping[str, SieError]) -> DownloadFailed:
    """Sum up what each source said; a gate counts most, because the user can open it."""
    is_gated = any(isinstance(error, ModelGated) for error in reasons.values())
    kind = ModelGated if is_gated else DownloadFailed
    return kind(
        f"cannot fetch {name}: {_listed(reasons) or 'its entry lists no sources'}. "
        f"Run `sie-mcp models pull {name}` to try again, or name a folder that holds the model"
    )


def _listed(reasons: Mapping[str, SieError]) -> str:
    return "; ".join(f"{source}: {error}" for source, error in reasons.items())


@contextmanager
def _disk_errors_explained(name: str, cache_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = DownloadFailed
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind = DiskFull
            free = _free_megabytes(cache_dir)
            reason = (
                f"no space left in {cache_dir} ({free}; {error.strerror}); free some, or choose"
            )
        else:
            reason = f"cannot write in {cache_dir} ({error}); make it writable, or choose"
        raise kind(
            f"cannot fetch {name}: {reason} another folder with SIE_MCP_CACHE_DIR or --cache-dir, "
            f"then run `sie-mcp models pull {name}`"
        ) from error


def _free_megabytes(folder: Path) -> str:
    return f"{shutil.disk_usage(folder).free / 1e6:.0f} MB free"
