"""What a hub repository holds, and which of its files a model needs. Downloads nothing."""

import dataclasses
import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import httpx2

from sie_mcp.catalogue.options import FetchOptions
from sie_mcp.catalogue.patience import within
from sie_mcp.errors import DownloadFailed, ModelGated, ModelNotFound

MAX_MODEL_BYTES = 64 * 1024**3
MAX_FILES = 1000
HOW_TO_ENTER = "gated: accept its terms there and run `hf auth login`"
_LICENCES = ("LICENSE*", "NOTICE*")
_WANTED = ("*.safetensors", "*.json", "*.txt", "*.model", *_LICENCES)
# The last is OpenCLIP's own copy of the weights, under its own names.
_UNWANTED = ("onnx/*", "openvino/*", "original/*", ".*", "open_clip*")
# PyTorch's own files, which are read without running anything: taken where a folder has no better.
_PYTORCH = ("pytorch_model*.bin", "adapter_model.bin", "*_linear.pt", "pruning_head.pt")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of the repository. Only large files have a sha256; the others' is empty."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The repository at one commit."""

    commit: str
    licence: str
    files: tuple[HubFile, ...]

    @property
    def size_bytes(self) -> int:
        """Sum of the files' sizes."""
        return sum(file.size for file in self.files)


def ask(
    library: ModuleType,
    repo: str,
    revision: str,
    options: FetchOptions,
    *,
    patience_s: float,
    file: str = "",
) -> Listing:
    """Ask the hub for the commit behind `revision` and the files of it that a model needs.

    With `file` that is this file alone, and the licence.

    Raises:
        ModelNotFound: the hub has no such repository or revision.
        ModelGated: it is for those who accepted its terms.
        DownloadFailed: the hub does not answer, refuses, or has no weights there.
    """
    api = library.HfApi(endpoint=options.hub_endpoint)
    errors = library.errors

    def model_info() -> Any:
        return api.model_info(repo, revision=revision, files_metadata=True, timeout=patience_s)

    try:
        info = within(patience_s, model_info)
    except errors.GatedRepoError as error:
        raise ModelGated(HOW_TO_ENTER) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ModelNotFound(
            f"the hub has no such repository at revision {revision} (or it is private)"
        ) from error
    except errors.HfHubHTTPError as error:
        raise DownloadFailed(f"the hub answered HTTP {error.response.status_code}") from error
    except (OSError, ValueError, httpx2.HTTPError) as error:
        reason = f"the hub cannot be reached ({first_line(error)})"
        options.hub_outage.remember(reason)
        raise DownloadFailed(reason) from error
    everything = tuple(
        HubFile(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else "")
        for file in info.siblings or ()
    )
    listing = Listing(str(info.sha), _licence(info.tags or ()), everything)
    if file:
        return _only_file(repo, listing, file)
    return _only_wanted(repo, listing, with_code=repo in options.allow_remote_code)


def first_line(error: Exception) -> str:
    """Return a library's error in one short line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _licence(tags: Iterable[str]) -> str:
    marked = (tag for tag in tags if tag.startswith("license:"))
    return next(marked, "license:").removeprefix("license:")


def _only_wanted(repo: str, listing: Listing, *, with_code: bool) -> Listing:
    kept = dataclasses.replace(
        listing,
        files=tuple(
            file for file in listing.files if _is_wanted(file.name, listing, with_code=with_code)
        ),
    )
    if not any(file.name.endswith((".safetensors", ".bin")) for file in kept.files):
        raise _not_there("model.safetensors or pytorch_model.bin", repo, listing)
    return _within_limits(kept)


def _only_file(repo: str, listing: Listing, name: str) -> Listing:
    kept = tuple(file for file in listing.files if _matches(file.name, (name, *_LICENCES)))
    if not any(file.name == name for file in kept):
        raise _not_there(name, repo, listing)
    return _within_limits(dataclasses.replace(listing, files=kept))


def _not_there(wanted: str, repo: str, listing: Listing) -> DownloadFailed:
    largest = sorted(listing.files, key=lambda file: file.size, reverse=True)[:5]
    names = ", ".join(file.name for file in largest)
    return DownloadFailed(f"no {wanted} in {repo}; its largest files are {names}")


def _within_limits(kept: Listing) -> Listing:
    if kept.size_bytes > MAX_MODEL_BYTES or len(kept.files) > MAX_FILES:
        raise DownloadFailed(
            f"{len(kept.files)} files of {kept.size_bytes} bytes; the limits are {MAX_FILES} files "
            f"and {MAX_MODEL_BYTES} bytes"
        )
    return kept


def _is_wanted(name: str, listing: Listing, *, with_code: bool) -> bool:
    if _matches(name, _UNWANTED):
        return False
    if name.endswith(".py"):
        return with_code
    return _matches(name, _WANTED) or _is_only_copy(name, listing)


def _is_only_copy(name: str, listing: Listing) -> bool:
    """Whether a file of PyTorch's holds weights that no safetensors file beside it holds."""
    folder, _, own = name.rpartition("/")
    if not _matches(own, _PYTORCH):
        return False
    beside = [
        file.name.rpartition("/")[2]
        for file in listing.files
        if file.name.rpartition("/")[0] == folder and not _matches(file.name, _UNWANTED)
    ]
    if own.endswith(".pt"):
        return f"{own.removesuffix('.pt')}.safetensors" not in beside
    return not any(_matches(one, ("*model*.safetensors",)) for one in beside)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
