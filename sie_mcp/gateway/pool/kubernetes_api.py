"""Lists and watches the EndpointSlices of a Service by the API of Kubernetes.

Knows HTTP and credentials; keeps nothing. One connection for a list and the watch that follows it:
tokens and certificates of a pod are renewed, and are read anew for each.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import httpx2
import pydantic
from pydantic import Field

from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.endpoint_slices import Metadata, Service, Slice

TOKEN, CERTIFICATE = "token", "ca.crt"
TIMEOUT_S = 10.0
# A server that is gone without a word is noticed within one of these and the grace.
WATCH_S = 60
GRACE_S = 15.0
PAGE = 200
MAX_SLICES = 1_024
# A slice has up to 1,000 endpoints; an object of Kubernetes has 1.5 MB at most.
MAX_BYTES = 4 * 1024 * 1024
MAX_LIST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where the API is, and the folder with `token` and `ca.crt` to reach it by."""

    url: str = "https://kubernetes.default.svc"
    credentials: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")

    def checked(self) -> Self:
        """Return the same.

        Raises:
            SettingError: there are no credentials, so this is no pod that may ask.
        """
        if (self.credentials / TOKEN).is_file():
            return self
        raise SettingError(
            f"no {self.credentials / TOKEN}: a pool's `service` is asked for with the token of a "
            "service account; mount one (gateway.discovery of the chart does), set "
            "kubernetes_credentials_dir, or give the pool's `workers` as dns://host:port"
        )


class ApiError(OSError):
    """The API cannot be asked, or did not answer as it should; later it may."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Expired(ApiError):
    """What was known is too old to go on from: list again."""


class Change(pydantic.BaseModel):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: dict[str, Any]


class _ListMeta(pydantic.BaseModel):
    version: str = Field(default="", alias="resourceVersion")
    rest: str = Field(default="", alias="continue")


class _SliceList(pydantic.BaseModel):
    metadata: _ListMeta
    items: list[Slice]


@dataclass(frozen=True, slots=True)
class Listed:
    """All slices of a Service, and the state of the cluster that they are of."""

    slices: list[Slice]
    version: str


class Session:
    """Asks for one Service's slices over one connection."""

    def __init__(self, client: httpx2.AsyncClient, service: Service) -> None:
        self._client = client
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{service.namespace}/endpointslices"
        self._ours = {"labelSelector": f"kubernetes.io/service-name={service.name}"}

    async def list(self) -> Listed:
        """Return all slices, page by page.

        Raises:
            ApiError: they could not be had.
            Expired: they changed too much between two pages.
        """
        slices: list[Slice] = []
        rest = ""
        while True:
            page = await self._page(rest)
            slices += page.items
            if len(slices) > MAX_SLICES:
                raise ApiError(f"{self._path}: more than {MAX_SLICES} slices of one Service")
            rest = page.metadata.rest
            if not rest:
                return Listed(slices, page.metadata.version)

    async def watch(self, version: str) -> AsyncGenerator[Change, None]:
        """Yield what changes after a state, for about a minute.

        Raises:
            ApiError: the stream broke, or says so.
            Expired: the state is too old.
        """
        more = {"watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": str(WATCH_S)}
        params = {**self._ours, **more, "resourceVersion": version}
        timeout = httpx2.Timeout(TIMEOUT_S, read=WATCH_S + GRACE_S)
        with _translated(self._path):
            async with self._client.stream(
                "GET", self._path, params=params, timeout=timeout
            ) as answer:
                await _check(answer)
                async for line in _lines(answer):
                    change = Change.model_validate_json(line)
                    _raise_error(change)
                    yield change

    async def _page(self, rest: str) -> _SliceList:
        params = {**self._ours, "limit": str(PAGE), **({"continue": rest} if rest else {})}
        with _translated(self._path):
            async with self._client.stream("GET", self._path, params=params) as answer:
                await _check(answer)
                return _SliceList.model_validate_json(await _read(answer))


@asynccontextmanager
async def session(server: ApiServer, service: Service) -> AsyncIterator[Session]:
    """Connect, with the credentials that lie there now.

    Raises:
        ApiError: they cannot be read.
    """
    try:
        token = await anyio.Path(server.credentials / TOKEN).read_text("ascii")
        context = await anyio.to_thread.run_sync(_trust, server)
    except (OSError, ValueError) as error:
        raise ApiError(f"credentials in {server.credentials} cannot be used: {error}") from error
    headers = {"Authorization": f"Bearer {token.strip()}", "Accept": "application/json"}
    async with httpx2.AsyncClient(
        base_url=server.url, headers=headers, verify=context, timeout=TIMEOUT_S, trust_env=False
    ) as client:
        yield Session(client, service)


def change_version(change: Change) -> str:
    """Return the state of the cluster after a change."""
    return Metadata.model_validate(change.object.get("metadata", {})).version


def _trust(server: ApiServer) -> ssl.SSLContext | bool:
    """Trust the cluster's own authority, and no other."""
    if not server.url.startswith("https://"):
        return False
    return ssl.create_default_context(cafile=str(server.credentials / CERTIFICATE))


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Say what failed as an ApiError: whoever asks knows no HTTP."""
    try:
        yield
    except httpx2.RequestError as error:
        raise ApiError(f"{path}: {type(error).__name__} {error}") from error
    except pydantic.ValidationError as error:
        raise ApiError(f"{path}: not what the API should answer: {error}") from error


async def _check(answer: httpx2.Response) -> None:
    if answer.status_code == 200:
        return
    said = (await _read(answer))[:300].decode("utf-8", "replace")
    kind = Expired if answer.status_code == 410 else ApiError
    raise kind(
        f"{answer.url.path}: {answer.status_code} {said}",
        _seconds(answer.headers.get("Retry-After")),
    )


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() else 0.0


def _raise_error(change: Change) -> None:
    if change.type != "ERROR":
        return
    kind = Expired if change.object.get("code") == 410 else ApiError
    raise kind(f"watch: {change.object.get('code')} {change.object.get('message')}")


async def _read(answer: httpx2.Response) -> bytes:
    content = bytearray()
    async for part in answer.aiter_bytes():
        content += part
        if len(content) > MAX_LIST_BYTES:
            raise ApiError(f"{answer.url.path}: a list of more than {len(content):,} bytes")
    return bytes(content)


async def _lines(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield lines; half a line at the end of a stream that broke is none."""
    rest = b""
    async for part in answer.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > MAX_BYTES:
            raise ApiError(f"{answer.url.path}: a line of more than {MAX_BYTES:,} bytes")
        for line in lines:
            if line.strip():
                yield line
