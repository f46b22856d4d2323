"""The user's ordinary Hugging Face cache, read only: what is there need not be fetched.

Knows the layout of that cache (refs and snapshots); never asks the hub.
"""

import importlib
from pathlib import Path
from types import ModuleType

from sie_mcp.catalogue.completeness import is_evidently_whole


def hub_library(module: str = "") -> ModuleType | None:
    """Import huggingface_hub, or a module of it, by name; None where it is not installed.

    The gateway runs without it, so nothing of it may be imported at the top of a file.
    """
    try:
        return importlib.import_module(f"huggingface_hub.{module}" if module else "huggingface_hub")
    except ModuleNotFoundError:
        return None


def find_in_user_cache(repo: str, revision: str, file: str = "") -> Path | None:
    """Return the snapshot of the repository at this revision if its own files show it is whole.

    With `file` it is whole where it holds that file.

    Without huggingface_hub nobody knows where that cache is, and nothing is found.
    """
    constants = hub_library("constants")
    if constants is None:
        return None
    folder = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / _commit(folder, revision)
    is_whole = (snapshot / file).is_file() if file else is_evidently_whole(snapshot)
    return snapshot if snapshot.is_dir() and is_whole else None


def _commit(folder: Path, revision: str) -> str:
    try:
        return (folder / "refs" / revision).read_text("utf-8").strip() or revision
    except OSError:
        return revision
