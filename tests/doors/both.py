"""One worker of toys, asked straight and by a door, and what differs between the two answers."""

import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgpack
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.codec import MSGPACK
from sie_mcp.compression import unpack
from sie_mcp.doors.app import Door
from sie_mcp.engine.server import Activity, WorkerApp
from tests.engine.conftest import Rig, running
from tests.servers import serving
from tests.toys import ToyLoader

MAX_BODY_BYTES = 400_000
# Of one answer alone.
_OWN_HEADERS = {"date", "x-sie-request-id", "connection", "transfer-encoding"}
_TIMING = re.compile(rb'"timing":\{[^}]*\}|"id":"[^"]*"|"(created|\w+_(s|load))":[\d.e-]+')


ENCODE = "/v1/encode/a"


def body(*texts: str) -> dict[str, Any]:
    """Return a request of texts."""
    return {"items": [{"text": text} for text in texts]}


@dataclass(frozen=True)
class Answer:
    """What came, as it was written."""

    status: int
    headers: dict[str, str]
    content: bytes


@dataclass
class Both:
    """A worker with a door before it.

    Attributes:
        straight: Asks the worker.
        door: Asks by the door.
        seen: Of each request that reached the worker by the door, its path and its headers.
    """

    rig: Rig
    activity: Activity
    straight: httpx2.AsyncClient
    door: httpx2.AsyncClient
    door_url: str
    uds: Path
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def clients(self) -> tuple[httpx2.AsyncClient, httpx2.AsyncClient]:
        """Both ways."""
        return self.straight, self.door

    async def compare(self, method: str, path: str, **given: Any) -> Answer:
        """Ask both, and fail where they do not say the same; return what they say."""
        expected = await read(self.straight, method, path, **given)
        found = await read(self.door, method, path, **given)
        assert found.status == expected.status, (found, expected)
        assert found.headers == expected.headers, (path, found.content[:200])
        assert found.content == expected.content, (path, found.content, expected.content)
        return found


async def read(client: httpx2.AsyncClient, method: str, path: str, **given: Any) -> Answer:
    """Ask, and return the answer without what is of one answer alone."""
    async with client.stream(method, path, **given) as response:
        content = b"".join([part async for part in response.aiter_raw()])
    headers = {k: v for k, v in response.headers.items() if k not in _OWN_HEADERS}
    base = str(client.base_url)
    if "location" in headers:
        assert headers["location"].startswith(base)
        headers["location"] = headers["location"].removeprefix(base)
    plain = _alike(headers, content)
    if plain != content:
        headers.pop("content-length", None)
    return Answer(response.status_code, headers, plain)


def _alike(headers: dict[str, str], content: bytes) -> bytes:
    """Return a body without what is of one answer alone: unpacked, where it has any."""
    if content and "content-encoding" in headers:
        content = unpack(content, headers["content-encoding"], 10 * len(content) + 10_000_000)
    if headers.get("content-type") != MSGPACK:
        return _TIMING.sub(b"", content)
    told = msgpack.unpackb(content, strict_map_key=False)
    if isinstance(told, dict):
        told = {name: one for name, one in told.items() if name not in ("id", "timing")}
    return msgpack.packb(told)


@asynccontextmanager
async def both(
    tmp_path: Path, loader: ToyLoader | None = None, *, joins: bool = True, **scheduling: Any
) -> AsyncIterator[Both]:
    """Run a worker of toys and a door for the length of the block."""
    activity = Activity()
    async with running(tmp_path, loader, **scheduling) as rig:
        alone, behind = (
            WorkerApp(
                rig.engine,
                rig.lanes,
                max_body_bytes=MAX_BODY_BYTES,
                activity=activity,
                has_doors=has_doors,
            ).starlette()
            for has_doors in (False, True)
        )
        seen: list[tuple[str, dict[str, str]]] = []
        with tempfile.TemporaryDirectory() as folder:
            uds = Path(folder) / "worker.sock"
            door = Door(str(uds), timeout_s=30.0, joins=joins)
            async with (
                aclosing(door),
                serving(_served(alone)) as straight_url,
                serving(_served(behind, seen), uds),
                serving(_served(door)) as door_url,
                _client(straight_url) as straight,
                _client(door_url) as asked,
            ):
                yield Both(rig, activity, straight, asked, door_url, uds, seen)


def _client(url: str) -> httpx2.AsyncClient:
    headers = {"accept-encoding": "identity"}
    return httpx2.AsyncClient(base_url=url, timeout=30, headers=headers)


def _served(app: ASGIApp, seen: list[tuple[str, dict[str, str]]] | None = None) -> ASGIApp:
    """Leave out the lifespan, which is the rig's, and write down what comes."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        if seen is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
            seen.append((scope["raw_path"].decode(), headers))
        await app(scope, receive, send)

    return serve
