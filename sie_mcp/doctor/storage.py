"""The cache folder: whether it can be written to, its size, the room left, the models in it."""

import shutil
import tempfile
from pathlib import Path

from sie_mcp.catalogue import batch_sizes, store
from sie_mcp.catalogue.fetch import find_local
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import Config
from sie_mcp.doctor.elsewhere import place
from sie_mcp.doctor.findings import Finding, size_text

# The largest models of the catalogue that are tried without much thought.
LEAST_FREE_BYTES = 5_000_000_000
NUM_SHOWN = 5
PULL = "sie-mcp models pull starter"


def cache(config: Config) -> list[Finding]:
    """Look at the cache folder and the disk under it. Makes the folder, as a first call would."""
    folder = config.cache_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
    except OSError as error:
        fix = "set SIE_MCP_CACHE_DIR to a folder that this user can write to"
        return [Finding("cache", "fail", f"{folder} cannot be written to ({error.strerror})", fix)]
    stored = store.stored_models(folder)
    used = size_text(sum(model.size_bytes for model in stored))
    text = f"{folder}: {len(stored)} models of {used}"
    return [Finding("cache", "ok", text), _disk(folder)]


def models(config: Config) -> list[Finding]:
    """Look for the models that tools use by default."""
    if place(config):
        return []
    starters = [entry for entry in load_catalogue(config.catalogue_file).models if entry.starter]
    missing = [entry.name for entry in starters if find_local(entry, config.cache_dir) is None]
    if not missing:
        return [Finding("models", "ok", f"the {len(starters)} starter models are on disk")]
    when = "no call can fetch them: offline is set" if config.offline else "a first call fetches it"
    text = f"not on disk: {', '.join(missing)}; {when}"
    fix = f"SIE_MCP_OFFLINE=false {PULL}" if config.offline else PULL
    return [Finding("models", "fail" if config.offline else "warn", text, fix)]


def batches(config: Config) -> list[Finding]:
    """Say how many tokens batches of models have, where that was measured on this machine."""
    if config.max_batch_tokens is not None:
        text = f"max_batch_tokens is set to {config.max_batch_tokens:,} for all models"
        return [Finding("batches", "ok", text)]
    known = batch_sizes.read(config.cache_dir)
    if not known:
        return [Finding("batches", "ok", "none measured yet: an idle worker does it")]
    shown = [f"{one.model} {one.tokens:,} ({one.device})" for one in known[::-1][:NUM_SHOWN]]
    left = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    return [Finding("batches", "ok", f"tokens as measured: {', '.join(shown)}{left}")]


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        fix = "free some, `sie-mcp models remove` what is not needed, or set SIE_MCP_CACHE_DIR"
        return Finding("disk", "warn", f"{size_text(free)} free for models", fix)
    return Finding("disk", "ok", f"{size_text(free)} free for models")
