"""The worker's HTTP: routes over the engine, probes, metrics. Ten lines a door."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pydantic
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import sie_mcp
from sie_mcp import metrics, tracing, wire
from sie_mcp.dialects.bodies import Reply, reply_to
from sie_mcp.dialects.errors import item_failure
from sie_mcp.dialects.models import card_for_openai, for_openai
from sie_mcp.dialects.openapi import openapi_json
from sie_mcp.dialects.sides import with_side
from sie_mcp.dialects.versions import SDK_HEADER
from sie_mcp.engine.caller import Caller, read_caller, read_seconds
from sie_mcp.engine.control import Control, Housekeeping
from sie_mcp.engine.control_routes import ControlRoutes
from sie_mcp.engine.dialect_routes import DialectRoutes
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.http import (
    declared_bytes,
    read_body,
    route,
    together,
)
from sie_mcp.engine.lane import Lanes
from sie_mcp.engine.token_routes import TokenRoutes
from sie_mcp.errors import WorkerUnavailable
from sie_mcp.http_ends import PROBES, error_response, unless_gone
from sie_mcp.joining import Joiner, Share, asked_alike, may_join
from sie_mcp.shares import SHARE_HEADER, read_share
from sie_mcp.unrouted import HeadAsGet, no_route

# Of one kind: what comes while so many run joins the next.
MAX_JOINED = 64
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(slots=True)
class Activity:
    """When the worker last had something to do; requests in flight count as doing."""

    last_s: float = field(default_factory=time.monotonic)
    in_flight: int = 0
    is_draining: bool = False

    def idle_s(self) -> float:
        """Seconds without a request."""
        return 0.0 if self.in_flight else time.monotonic() - self.last_s


@dataclass(frozen=True, slots=True)
class Alike:
    """What requests say beside their bodies that may run as one."""

    model: str
    params: str
    load_wait_s: float | None
    caller: Caller
    predicts: bool


class WorkerApp:
    """Routes of one engine."""

    def __init__(
        self,
        engine: Engine,
        lanes: Lanes,
        *,
        max_body_bytes: int,
        activity: Activity,
        allows_control: bool = True,
        housekeeping: Housekeeping | None = None,
        has_doors: bool = False,
    ) -> None:
        self._engine = engine
        self._joiner = Joiner(self._run_joined, max_running=MAX_JOINED)
        self._lanes = lanes
        self._housekeeping = housekeeping or Housekeeping()
        self._control = Control(lanes)
        self._control_routes = ControlRoutes(
            engine, self._control, is_allowed=allows_control, max_body_bytes=max_body_bytes
        )
        self._max_body_bytes = max_body_bytes
        self._activity = activity
        self._has_doors = has_doors

    def starlette(self) -> ASGIApp:
        """Build the application; its lifespan starts and stops the device threads."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            for lane in self._lanes.all:
                lane.thread.start()
            async with self._housekeeping.running(self._control):
                yield
            await self._engine.aclose()

        routes = [
            Route("/v1/encode/{model:path}", route("encode", self._encode), methods=["POST"]),
            Route("/v1/score/{model:path}", route("score", self._score), methods=["POST"]),
            Route("/v1/extract/{model:path}", route("extract", self._extract), methods=["POST"]),
            *DialectRoutes(self._answer, max_body_bytes=self._max_body_bytes).routes(),
            *TokenRoutes(self._engine, max_body_bytes=self._max_body_bytes).routes(),
            *self._control_routes.routes(),
            *(self._joined_routes() if self._has_doors else ()),
            Route("/v1/models", route("models", self._models)),
            Route("/v1/models/{model:path}", route("model", self._model)),
            Route("/v1/revision/{model:path}", route("revision", self._revision)),
            Route("/health", self._health),
            Route("/openapi.json", self._openapi),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]
        app = Starlette(
            routes=routes,
            lifespan=lifespan,
            middleware=[Middleware(HeadAsGet)],
            exception_handlers={HTTPException: no_route},
        )
        return _Door(app, self._activity)

    async def _encode(self, request: Request) -> Reply:
        return await self._run(request, wire.EncodeRequest)

    def _joined_routes(self) -> list[Route]:
        """Return what doors alone ask, whose requests stand for several."""
        counted = route("encode", self._encode, read_share)

        async def joined(request: Request) -> Response:
            if SHARE_HEADER not in request.headers:
                raise HTTPException(404)
            return await counted(request)

        # Whatever method others try, there is nothing here.
        return [Route("/joined/{model:path}", joined, methods=_METHODS)]

    async def _score(self, request: Request) -> Reply:
        reply = await self._run(request, wire.ScoreRequest)
        assert isinstance(reply.body, wire.ScoreResponse)
        if SDK_HEADER in request.headers:
            # SIE's SDK reads every entry's score: to it a failed item is a failed request.
            for one in reply.body.scores:
                if one.score is None:
                    raise item_failure(f"items[{one.index}]", one.error)
        return reply

    async def _extract(self, request: Request) -> Reply:
        return await self._run(request, wire.ExtractRequest)

    async def _run(self, request: Request, body_type: type[wire.Request]) -> Reply:
        # What will not be served costs those that are nothing but this.
        size_bytes = declared_bytes(request)
        if size_bytes <= self._max_body_bytes:
            self._engine.check_room(size_bytes, read_caller(request.headers))
        body = await read_body(request, body_type, self._max_body_bytes)
        answers = await self._answer(request, request.path_params["model"], [body])
        return reply_to(answers[0], answers)

    async def _answer(
        self, request: Request, model: str, bodies: Sequence[wire.Request], predicts: bool = False
    ) -> list[wire.Response]:
        """Run bodies, all at once, for whom the headers name; a hang-up cancels them."""
        self._engine.check_count(bodies)
        sided = [with_side(one, request.headers) for one in bodies]
        load_wait_s = read_seconds(request.headers, "X-SIE-Load-Wait")
        caller = read_caller(request.headers)
        if len(sided) == 1 and may_join(sided[0]) and not tracing.is_on():
            assert isinstance(sided[0], wire.EncodeRequest)
            alike = Alike(model, asked_alike(sided[0]), load_wait_s, caller, predicts)
            answer = await unless_gone(request, self._joiner.ask(alike, sided[0]))
            return [answer]
        work = [
            self._engine.run(model, one, load_wait_s=load_wait_s, caller=caller, predicts=predicts)
            for one in sided
        ]
        if len(work) == 1:
            return [await unless_gone(request, work[0])]
        return await unless_gone(request, together(work))

    async def _run_joined(
        self, alike: Alike, request: wire.EncodeRequest, _: Share
    ) -> wire.EncodeResponse:
        answer = await self._engine.run(
            alike.model,
            request,
            load_wait_s=alike.load_wait_s,
            caller=alike.caller,
            predicts=alike.predicts,
        )
        assert isinstance(answer, wire.EncodeResponse)
        return answer

    async def _models(self, _: Request) -> pydantic.BaseModel:
        return for_openai(await self._engine.models())

    async def _model(self, request: Request) -> pydantic.BaseModel:
        return card_for_openai(await self._engine.model(request.path_params["model"]))

    async def _revision(self, request: Request) -> pydantic.BaseModel:
        model, lora = request.path_params["model"], request.query_params.get("lora")
        return await self._engine.revision(model, lora, read_caller(request.headers))

    async def _health(self, _: Request) -> Response:
        """The same for clients of SIE and TEI."""
        state = self._state()
        status = "healthy" if state == "ready" else state
        body = {"type": "worker", "status": status, "version": sie_mcp.__version__}
        return JSONResponse(body, status_code=200 if state == "ready" else 503)

    async def _openapi(self, _: Request) -> Response:
        return Response(openapi_json(), media_type="application/json")

    async def _healthz(self, _: Request) -> Response:
        """503 when only a new process can help: a device is lost, or something is stuck."""
        body = {"status": self._state(), "silence_s": round(self._silence_s(), 1)}
        return JSONResponse(body, status_code=503 if self._lanes.failure else 200)

    async def _readyz(self, _: Request) -> Response:
        """503 while new requests would be refused, or would wait for what is preloaded."""
        state = self._state()
        return JSONResponse({"status": state}, status_code=200 if state == "ready" else 503)

    def _state(self) -> str:
        if self._lanes.failure is not None:
            return "failed"
        if self._activity.is_draining:
            return "draining"
        if not all(lane.thread.is_alive for lane in self._lanes.all):
            return "starting"
        return "preloading" if self._control.is_preloading else "ready"

    def _silence_s(self) -> float:
        return time.monotonic() - min(lane.thread.beat_s for lane in self._lanes.all)

    async def _metrics(self, _: Request) -> Response:
        return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)


class _Door:
    """Counts requests in flight, by which idle time is measured; lets none in while leaving.

    Probes are neither counted nor refused. Who only looks at the account is not counted: it must
    neither keep a worker from leaving nor count as work.
    """

    _LOOKS = ("/v1/memory",)

    def __init__(self, app: ASGIApp, activity: Activity) -> None:
        self._app = app
        self._activity = activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        if self._activity.is_draining:
            leaving = WorkerUnavailable("the worker is leaving; call again")
            await error_response(Request(scope), leaving)(scope, receive, send)
            return
        if scope["path"] in self._LOOKS:
            await self._app(scope, receive, send)
            return
        self._activity.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._activity.in_flight -= 1
            self._activity.last_s = time.monotonic()
