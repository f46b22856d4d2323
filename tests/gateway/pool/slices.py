"""EndpointSlices as the API of Kubernetes writes them, and a stub of that API with a script."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sie_mcp.gateway.pool.kubernetes_api import ApiServer
from tests.servers import serving

PATH = "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices"
HTTP = {"name": "http", "port": 9000, "protocol": "TCP"}

Document = dict[str, Any]
# What a watch says before it ends: lines, what it waits for, or an exception that breaks it.
Stream = list[Document | str | anyio.Event | type[Exception]]


def endpoint(address: str, zone: str | None = None, **conditions: bool | None) -> Document:
    return {"addresses": [address], "conditions": conditions, "zone": zone}


def slice_of(
    *endpoints: Document,
    name: str = "l4-a",
    version: str = "1",
    family: str = "IPv4",
    ports: list[Document] | None = None,
) -> Document:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "resourceVersion": version,
            "labels": {"kubernetes.io/service-name": "l4"},
        },
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": [HTTP] if ports is None else ports,
    }


def change(kind: str, changed: Document) -> Document:
    return {"type": kind, "object": changed}


def bookmark(version: str) -> Document:
    return change("BOOKMARK", {"metadata": {"resourceVersion": version}})


GONE = change("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})


@dataclass
class StubApi:
    """Answers lists with what there is, and each watch with its next stream; the last one hangs.

    Attributes:
        pages: Of a list; more than one are parted by `continue`.
        refusals: Answers given before any other.
        updates: What there is, and its version, from one watch on.
        streams: Of watches, in order.
        asked: What came, as (watch or list, resourceVersion or continue, token).
    """

    pages: list[list[Document]] = field(default_factory=lambda: [[]])
    version: str = "1"
    refusals: list[Response] = field(default_factory=list)
    updates: list[tuple[list[list[Document]], str]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncIterator[ApiServer]:
        """Serve until the block ends; yield where, with a token."""
        (folder / "token").write_text("first\n")
        async with serving(Starlette(routes=[Route(PATH, self._answer)])) as url:
            yield ApiServer(url, folder)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, *_ in self.asked]

    async def _answer(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.queries.append(query)
        is_watch = query.get("watch") == "1"
        token = request.headers["Authorization"].removeprefix("Bearer ")
        place = query.get("resourceVersion", "") if is_watch else query.get("continue", "")
        self.asked.append(("watch" if is_watch else "list", place, token))
        if is_watch and self.updates:
            self.pages, self.version = self.updates.pop(0)
        if self.refusals:
            return self.refusals.pop(0)
        return StreamingResponse(self._stream()) if is_watch else self._list(int(place or 0))

    def _list(self, page: int) -> Response:
        rest = str(page + 1) if page + 1 < len(self.pages) else ""
        metadata = {"resourceVersion": self.version, "continue": rest}
        return JSONResponse({"metadata": metadata, "items": self.pages[page]})

    async def _stream(self) -> AsyncIterator[str]:
        if not self.streams:
            yield "\n"
            await anyio.sleep_forever()
        for one in self.streams.pop(0):
            if isinstance(one, type):
                raise one("the stream breaks")
            if isinstance(one, anyio.Event):
                await one.wait()
                continue
            yield one if isinstance(one, str) else json.dumps(one) + "\n"
