"""A model from the hub, through huggingface_hub: weights, configuration, tokenizer, licence.

Code is asked for only where a setting names the model. What arrives is compared with the hub's own
listing.
"""

import errno
import glob
import hashlib
import shutil
from pathlib import Path
from types import ModuleType

import httpx2

from sie_mcp.catalogue import download, hub_listing, store
from sie_mcp.catalogue.hub_cache import find_in_user_cache, hub_library
from sie_mcp.catalogue.hub_listing import Listing
from sie_mcp.catalogue.hub_progress import counting_bars
from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.errors import DownloadFailed, ModelGated

DEFAULT_REVISION = "main"
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}


def find(repo: str, revision: str | None, cache_dir: Path, *, file: str = "") -> Path | None:
    """Return the folder of a whole copy: our own, else one in the user's Hugging Face cache.

    With `file` it is whole where it holds that file.
    """
    wanted = revision or DEFAULT_REVISION
    for stored in store.stored_models(cache_dir):
        manifest = stored.manifest
        is_wanted = manifest.repo == repo and manifest.file == file
        if is_wanted and wanted in (manifest.commit, *manifest.revisions):
            return stored.folder
    return find_in_user_cache(repo, wanted, file)


def fetch(
    repo: str,
    revision: str | None,
    cache_dir: Path,
    options: FetchOptions,
    *,
    patience_s: float,
    file: str = "",
) -> Path:
    """Download the repository's model files; call it holding the model's lock.

    Args:
        patience_s: Longest wait for the hub's first answer, name resolution included.
        file: The one file wanted; "" is all that a model needs.

    Raises:
        ModelNotFound: the hub has no such repository or revision.
        ModelGated: the hub has it for those who accepted its terms.
        DownloadFailed: any other reason, in a few words.
        OSError: the disk is full or refuses.
    """
    library = hub_library()
    if library is None:
        raise DownloadFailed("needs huggingface-hub; run `pip install 'sie-mcp[engine]'`")
    if reason := options.hub_outage.reason():
        raise DownloadFailed(reason)
    wanted = revision or DEFAULT_REVISION
    listing = hub_listing.ask(library, repo, wanted, options, patience_s=patience_s, file=file)
    name = f"{repo}/{file}" if file else repo
    target = store.folder_for(cache_dir, name, listing.commit)
    if stored := store.read(target):
        _remember_revision(stored, wanted)
        return target
    partial = store.work_folder(cache_dir) / f"{target.name}.partial"
    download.refuse_full_disk(partial.parent, listing.size_bytes - _bytes_in(partial))
    _download(library, repo, listing, partial, options)
    _check_files(partial, listing)
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    manifest = store.Manifest(
        name=repo,
        source=f"hub {repo}",
        repo=repo,
        commit=listing.commit,
        file=file,
        revisions=(wanted,),
        licence=listing.licence,
    )
    return store.publish(partial, target, manifest)


def _remember_revision(stored: store.StoredModel, revision: str) -> None:
    revisions = tuple(dict.fromkeys((*stored.manifest.revisions, revision)))
    store.write_manifest(stored.folder, stored.manifest.model_copy(update={"revisions": revisions}))


def _download(
    library: ModuleType, repo: str, listing: Listing, partial: Path, options: FetchOptions
) -> None:
    try:
        library.snapshot_download(
            repo,
            revision=listing.commit,
            local_dir=partial,
            cache_dir=partial.parent / "hub-refs",
            allow_patterns=[glob.escape(file.name) for file in listing.files],
            endpoint=options.hub_endpoint,
            etag_timeout=options.timeout_s,
            tqdm_class=counting_bars(lambda done: options.report(repo, done, listing.size_bytes)),
        )
    except library.errors.GatedRepoError as error:
        # Anybody may list a gated repository.
        raise ModelGated(hub_listing.HOW_TO_ENTER) from error
    except (OSError, ValueError, httpx2.HTTPError) as error:
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            raise download.with_need(error, listing.size_bytes - _bytes_in(partial)) from error
        raise DownloadFailed(f"broke off: {hub_listing.first_line(error)}") from error


def _bytes_in(partial: Path) -> int:
    """Count what has arrived, whole files and parts of files."""
    return sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())


def _check_files(partial: Path, listing: Listing) -> None:
    for file in listing.files:
        path = partial / file.name
        if not path.is_file():
            raise DownloadFailed(f"{file.name} did not arrive")
        if not file.sha256:
            continue
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != file.sha256:
            path.unlink()
            raise DownloadFailed(
                f"wrong content of {file.name}: sha256 {found}, expected {file.sha256}"
            )
