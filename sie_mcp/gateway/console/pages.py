"""The routes of the console: files of the package, which hold no data, and the state behind a key.

All scripts and styles come from this server; nothing is loaded from elsewhere.
"""

import functools
import importlib.resources
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from sie_mcp.access.allowance import allowance_of
from sie_mcp.access.gate import Access, Gate, error_response
from sie_mcp.access.setup import LOOPBACK
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import Config
from sie_mcp.errors import SieError
from sie_mcp.gateway.console.looks import Looks
from sie_mcp.gateway.console.state import describe

STATE_PATH = "/console/state"
# By path: the file of the package, and what it is.
ASSETS = {
    "/": ("index.html", "text/html"),
    "/console/console.css": ("console.css", "text/css"),
    **{
        f"/console/{name}.js": (f"{name}.js", "text/javascript")
        for name in ("console", "fields", "gateway", "page", "tools", "workers")
    },
    "/console/icon.svg": ("icon.svg", "image/svg+xml"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def has_console(config: Config) -> bool:
    """Whether there is one: as it was said; else where callers show a key or are on this machine.

    Names that others may call this machine by mean that something in front lets others in.
    """
    if config.console is not None:
        return config.console
    is_own = config.host in LOOPBACK and "allowed_hosts" not in config.model_fields_set
    return is_own or config.auth != "none"


class Console:
    """What there is under `/` and `/console`.

    Args:
        looks: Says what there is.
        access: Who may see it.
        config: The catalogue, and whether figures may be read.
    """

    def __init__(self, looks: Looks, access: Access, config: Config) -> None:
        self._looks = looks
        self._catalogue_file = config.catalogue_file
        self._has_figures = config.expose_metrics != "off"
        state = Gate(Router([Route(STATE_PATH, self._state)]), access, counts=False)
        pages = [Route(path, _asset) for path in ASSETS]
        self.app: ASGIApp = Router([*pages, Route(STATE_PATH, state)])
        self.paths: Sequence[str] = (*ASSETS, STATE_PATH)

    async def _state(self, request: Request) -> Response:
        allowance = allowance_of(request.scope)
        assert allowance is not None
        try:
            known = await anyio.to_thread.run_sync(_known, self._catalogue_file)
            pools = await self._looks.now()
        except SieError as error:
            return error_response(error, STATE_PATH)
        state = describe(pools, known, allowance.principal, has_figures=self._has_figures)
        headers = {**_HEADERS, "Cache-Control": "no-store"}
        return Response(state.model_dump_json(), media_type="application/json", headers=headers)


async def _asset(request: Request) -> Response:
    name, kind = ASSETS[request.url.path]
    return Response(_content(name), media_type=kind, headers=_HEADERS)


@functools.cache
def _content(name: str) -> bytes:
    return (importlib.resources.files("sie_mcp.gateway.console") / "assets" / name).read_bytes()


@functools.lru_cache(maxsize=4)
def _known(catalogue_file: Path | None) -> tuple[str, ...]:
    """Return the names of the catalogue."""
    return tuple(sorted(one.name for one in load_catalogue(catalogue_file).models))
