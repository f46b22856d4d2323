"""The worker that tools would talk to: where it is and how it is. Starts none."""

from pathlib import Path

import httpx2

import sie_mcp
from sie_mcp.config import Config
from sie_mcp.doctor.elsewhere import place
from sie_mcp.doctor.findings import Finding
from sie_mcp.doctor.network import without_secret
from sie_mcp.doctor.pools import pools, status
from sie_mcp.errors import SettingError
from sie_mcp.gateway.lock import read_note, take_lock
from sie_mcp.gateway.runtime_folder import runtime_folder
from sie_mcp.gateway.worker_settings import worker_name
from sie_mcp.short_folders import leave_if_empty


def worker(config: Config) -> list[Finding]:
    """Look for the workers that a setting names, or for the shared local one of these settings."""
    if config.worker_url is not None:
        return [_remote(config.worker_url)]
    if place(config) is not None:
        return pools(config)
    name = worker_name(config)
    try:
        folder = runtime_folder(config.runtime_dir, f"{name}.sock")
    except SettingError as error:
        return [Finding("worker", "fail", str(error), "see the message")]
    try:
        return [_local(folder, name), *_others(folder, name)]
    finally:
        leave_if_empty(folder)


def _remote(url: str) -> Finding:
    shown = without_secret(url)
    try:
        said = status(httpx2.HTTPTransport(), url.rstrip("/"))
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        fix = "start it (`sie-mcp worker --port N`), or change SIE_MCP_WORKER_URL"
        return Finding("worker", "fail", f"{shown} does not answer ({error})", fix)
    if said != "ready":
        return Finding("worker", "warn", f"{shown} is {said}", "wait, or look at its log")
    return Finding("worker", "ok", f"{shown} is ready")


def _local(folder: Path, name: str) -> Finding:
    pid = _holder(folder / f"{name}.lock")
    if pid is None:
        return Finding("worker", "ok", "none runs; the first call starts one")
    log, place = folder / f"{name}.log", folder / f"{name}.sock"
    known = f"process {pid}, version {sie_mcp.__version__}, {place}"
    fix = f"wait a minute if it is starting; else look at {log} and end process {pid}"
    if not place.exists():
        return Finding("worker", "warn", f"does not listen yet: {known}", fix)
    try:
        transport = httpx2.HTTPTransport(uds=str(place), verify=False)
        said = status(transport, "http://worker")
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        return Finding("worker", "warn", f"does not answer ({error}): {known}", fix)
    if said != "ready":
        return Finding("worker", "warn", f"{said}: {known}", f"look at {log}")
    return Finding("worker", "ok", f"ready: {known}")


def _others(folder: Path, name: str) -> list[Finding]:
    """Name workers of other settings or versions: each holds its own copies of models."""
    others = [lock for lock in sorted(folder.glob("worker-*.lock")) if lock.stem != name]
    pids = [pid for lock in others if (pid := _holder(lock)) is not None]
    if not pids:
        return []
    text = f"{len(pids)} more with other settings or of other versions: process {', '.join(pids)}"
    fix = "give all clients the same SIE_MCP_* settings; they leave by themselves when idle"
    return [Finding("other workers", "warn", text, fix)]


def _holder(lock_path: Path) -> str | None:
    """Return the process that holds a lock; None if nobody does."""
    if not lock_path.exists():
        return None
    lock = take_lock(lock_path)
    if lock is None:
        return read_note(lock_path) or "?"
    with lock:
        return None
