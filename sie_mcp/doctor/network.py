"""Whether the places that models come from answer, each within a few seconds.

Any answer will do, a refusal too: it shows that the way there is open.
"""

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

import httpx2

from sie_mcp.catalogue.patience import within
from sie_mcp.config import Config
from sie_mcp.doctor.elsewhere import place
from sie_mcp.doctor.findings import Finding

LIMIT_S = 5.0
HUB = "https://huggingface.co"
INDEX = "https://pypi.org/simple"
PIP = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "config", "get")
PROXY = "check the network and HTTPS_PROXY, or set SIE_MCP_OFFLINE=true to do without"


def sources(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    """Ask the hub and the package index, at the same time."""
    if place(config):
        return [Finding("hub", "ok", "not needed here: the worker elsewhere fetches models")]
    if config.offline:
        return [Finding("hub", "ok", "not asked: offline is set")]
    hub = config.hub_endpoint or environ.get("HF_ENDPOINT") or HUB
    index = config.index_url or environ.get("PIP_INDEX_URL") or _pips_index()
    asked = (
        ("hub", f"{hub.rstrip('/')}/api/models?limit=1", "SIE_MCP_HUB_ENDPOINT names another hub"),
        ("index", f"{index.rstrip('/')}/pip/", "SIE_MCP_INDEX_URL names another index"),
    )
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(lambda one: _ask(*one), asked))


def answers(url: str, limit_s: float = LIMIT_S) -> str:
    """Return how a URL answered.

    Raises:
        TimeoutError: not within the limit, name look-up included.
        httpx2.HTTPError: not at all, or the URL cannot be one.
    """
    response = within(limit_s, lambda: httpx2.get(url, timeout=limit_s))
    return f"HTTP {response.status_code}"


def _ask(name: str, url: str, other: str) -> Finding:
    shown = without_secret(url)
    try:
        return Finding(name, "ok", f"{shown} answers ({answers(url)})")
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        text = f"{shown} does not answer ({type(error).__name__}: {error})"
        return Finding(name, "warn", text.replace(url, shown), f"{PROXY}; {other}")


def without_secret(url: str) -> str:
    """Return a URL without the user and password that an index's often holds."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _pips_index() -> str:
    """Return the index that pip is set to; pip alone knows all of its files."""
    try:
        done = subprocess.run(
            [*PIP, "global.index-url"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return INDEX
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else INDEX
