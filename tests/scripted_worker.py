"""A small real worker without models: it answers plainly, unless its script says otherwise.

A text that is a number is its own vector and its own score, so that order shows.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pydantic
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sie_mcp import wire
from sie_mcp.codec import decode_body, encode_body, media_type_of, preferred_media_type
from sie_mcp.errors import SieError
from tests.servers import serving

# A step that returns None lets the request have its plain answer.
Step = Callable[[Request], Awaitable[Response | None]]
CARD = wire.ModelCard(
    name="toy", primitives=["encode", "score", "extract"], outputs=["dense"], labels=["name"]
)


@dataclass(frozen=True)
class Seen:
    """One request, as it arrived."""

    path: str
    model: str
    headers: dict[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        return [item["text"] for item in self.body["items"]]


@dataclass
class ScriptedWorker:
    """What it does next, and what it has seen.

    Attributes:
        script: Steps for the next requests, one each; after the last, `always`.
        num_hung_up: How many callers left while a step held their request.
        ready: What it says of itself.
    """

    script: list[Step] = field(default_factory=list)
    always: Step | None = None
    seen: list[Seen] = field(default_factory=list)
    num_hung_up: int = 0
    ready: tuple[int, str] = (200, "ready")

    @asynccontextmanager
    async def running(self, uds: Path | None = None) -> AsyncIterator[str]:
        """Serve until the block ends; yield the URL."""
        async with serving(self.app(), uds) as url:
            yield url

    def app(self) -> Starlette:
        async def ready(_: Request) -> Response:
            status, state = self.ready
            return JSONResponse({"status": state}, status)

        routes = [
            Route("/readyz", ready),
            Route("/v1/models", self._handle),
            Route("/v1/{primitive}/{model:path}", self._handle, methods=["GET", "POST"]),
        ]
        return Starlette(routes=routes)

    def hold(self, gate: asyncio.Event) -> Step:
        """A step that waits for the gate, or until the caller hangs up."""

        async def held(request: Request) -> None:
            opened = asyncio.create_task(gate.wait())
            left = asyncio.create_task(_hung_up(request))
            await asyncio.wait({opened, left}, return_when=asyncio.FIRST_COMPLETED)
            self.num_hung_up += left.done()
            opened.cancel()
            left.cancel()

        return held

    async def _handle(self, request: Request) -> Response:
        sent = media_type_of(request.headers.get("content-type"))
        data = await request.body()
        model = request.path_params.get("model", "")
        body = decode_body(data, sent) if data else None
        self.seen.append(Seen(request.url.path, model, dict(request.headers), body))
        step = self.script.pop(0) if self.script else self.always
        if step is not None and (response := await step(request)) is not None:
            return response
        plain = _plain_answer(request.path_params.get("primitive", "models"), model, body)
        media_type = preferred_media_type(request.headers.get("accept"), sent)
        return Response(encode_body(plain, media_type), media_type=media_type)


def fails_with(
    error: SieError, *, retry_after: str | None = None, media_type: str = "application/json"
) -> Step:
    """A step that answers with an error, in a worker's envelope."""

    async def fail(_: Request) -> Response:
        headers = {"X-SIE-Error-Code": error.code}
        if retry_after is not None:
            headers["Retry-After"] = retry_after
        envelope = {"error": {"code": error.code, "message": str(error)}}
        content = encode_body(envelope, media_type)
        return Response(content, error.status, headers, media_type)

    return fail


def answers(content: bytes | str, status: int = 200, **headers: str) -> Step:
    """A step that answers with anything at all."""

    async def answer(_: Request) -> Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Response(content, status, named)

    return answer


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, for at most half a minute."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)


def vector_of(text: str) -> list[float]:
    """The plain answer's vector for a text."""
    return [number_of(text), 1.0]


def number_of(text: str) -> float:
    """The plain answer's score for a text."""
    try:
        return float(text)
    except ValueError:
        return float(len(text))


def _plain_answer(primitive: str, model: str, body: Any) -> pydantic.BaseModel:
    if primitive == "models":
        return CARD if model else wire.ModelList(models=[CARD], defaults={"score": "toy"})
    usage = wire.Usage(input_tokens=len(body["items"]))
    texts = [item["text"] for item in body["items"]]
    ids = [item.get("id") for item in body["items"]]
    if primitive == "encode":
        encoded = [
            wire.EncodedItem(id=one, num_tokens=1, dense=wire.Dense(dims=2, values=vector_of(text)))
            for one, text in zip(ids, texts, strict=True)
        ]
        return wire.EncodeResponse(model=model, items=encoded, usage=usage)
    if primitive == "score":
        scores = [
            wire.Score(
                item_id=one or f"item-{index}", index=index, score=number_of(text), rank=index
            )
            for index, (one, text) in enumerate(zip(ids, texts, strict=True))
        ]
        return wire.ScoreResponse(model=model, scores=scores, score_type="logit", usage=usage)
    found = [
        wire.ExtractedItem(
            id=one,
            num_tokens=1,
            entities=[wire.Entity(text=text, label="name", score=1.0, start=0, end=len(text))],
        )
        for one, text in zip(ids, texts, strict=True)
    ]
    return wire.ExtractResponse(model=model, items=found, usage=usage)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
