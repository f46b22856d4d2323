"""`sie-mcp serve`: MCP over stateless HTTP, the worker's routes beside it, probes and metrics.

The composition root of the HTTP side.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.access.gate import Access, Gate, error_response, permission_of
from sie_mcp.access.setup import LOOPBACK, check_exposure, make_access, metadata_routes
from sie_mcp.broker.pull_request import PATH as PULL_PATH
from sie_mcp.config import Config
from sie_mcp.connection import Endpoint
from sie_mcp.dialects.openapi import openapi_json
from sie_mcp.dialects.table import OTHER_PATHS
from sie_mcp.errors import NotAllowed, SieError
from sie_mcp.gateway.console.looks import looks_of
from sie_mcp.gateway.console.pages import Console, has_console
from sie_mcp.gateway.endpoint import choose_endpoint, kept_up, make_client, read_worker_key
from sie_mcp.gateway.guarded import Guarded
from sie_mcp.gateway.incoming import BodyLimits
from sie_mcp.gateway.leaving import serve_until_told
from sie_mcp.gateway.marks import Marks
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.pool.scale import ScaleRoute
from sie_mcp.gateway.probes import Probes
from sie_mcp.gateway.proxy import Proxy
from sie_mcp.gateway.queued.endpoint import QueueEndpoint
from sie_mcp.gateway.queued.jobs import PATH as JOB_PATH
from sie_mcp.gateway.queued.jobs import Jobs
from sie_mcp.gateway.readiness import readiness_of, watched
from sie_mcp.gateway.same_origin import SameOrigin
from sie_mcp.gateway.server import build_server
from sie_mcp.gateway.session_names import SessionNames
from sie_mcp.gateway.vectors.cache import open_cache
from sie_mcp.http_protocol import HttpProtocol
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.registry import tool_names
from sie_mcp.unrouted import HeadAsGet, no_route
from sie_mcp.web_server import WebServer

logger = logging.getLogger(__name__)

MCP_PATH = "/mcp"


def build_app(config: Config, *, files_allowed: bool, probes: Probes | None = None) -> Starlette:
    """Join MCP, proxy and probes. Over HTTP files are off unless folders were named.

    Raises:
        SettingError: who may call is not set as it must be.
    """
    access = make_access(config, tool_names)
    endpoint = choose_endpoint(config)
    vectors = open_cache(config)
    client = make_client(
        endpoint, config, allows_local_models=config.allow_local_models, vectors=vectors
    )
    jobs = Jobs(endpoint) if isinstance(endpoint, QueueEndpoint) else None
    proxy = Proxy(
        endpoint,
        timeout_s=config.request_timeout_s,
        limits=BodyLimits(config.max_body_bytes, config.max_kept_body_bytes),
        allows_local_models=config.allow_local_models,
        worker_key=read_worker_key(config),
        jobs=jobs,
        vectors=vectors,
        max_items=config.max_items,
    )
    server = build_server(client, config, files_allowed=files_allowed)
    security = _security(config)
    mcp_app = build_mcp_app(server, config)
    probes = probes or Probes()
    v1 = Router(
        [
            *([] if config.allow_model_control else [_no_control()]),
            Route(PULL_PATH, _between_us, methods=["GET", "POST"]),
            *([] if jobs is None else [Route(JOB_PATH, jobs.handle, methods=["GET", "DELETE"])]),
            Route("/v1/{path:path}", proxy.handle, methods=["GET", "POST"]),
            *(Route(path, proxy.handle, methods=["GET", "POST"]) for path in OTHER_PATHS),
            Route("/openapi.json", _openapi),
        ]
    )
    guarded = Guarded(Gate(v1, access, needs=permission_of), security)
    looks = probes.looks = looks_of(endpoint, read_worker_key(config))
    readiness = probes.readiness = readiness_of(endpoint, read_worker_key(config))
    console = Console(looks, access, config) if has_console(config) else None

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with kept_up(endpoint), watched(readiness), server.session_manager.run():
            probes.is_ready = True
            yield
            probes.drain()
        await client.aclose()
        await proxy.aclose()
        await looks.aclose()
        await readiness.aclose()
        await access.aclose()

    return Starlette(
        routes=[
            *probes.routes(),
            *_scale(endpoint),
            *_metrics(config, probes, access),
            *metadata_routes(config),
            *_pages(console, security),
            Route("/v1/{path:path}", guarded),
            *(Route(path, guarded) for path in (*OTHER_PATHS, "/openapi.json")),
            Mount("/", app=Guarded(Gate(mcp_app, access, counts=False), security)),
        ],
        middleware=[Middleware(Marks), Middleware(SameOrigin), Middleware(HeadAsGet)],
        exception_handlers={HTTPException: no_route, Exception: _failed},
        lifespan=lifespan,
    )


def build_mcp_app(server: MCPServer[ToolContext], config: Config) -> ASGIApp:
    """Return the MCP path of a server. Its session manager has to run while it is used."""
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=False,
        max_request_body_size=config.max_mcp_body_bytes,
        transport_security=_security(config),
    )
    return _McpPath(SessionNames(app))


def _security(config: Config) -> TransportSecuritySettings:
    return TransportSecuritySettings(
        allowed_hosts=list(config.allowed_hosts), allowed_origins=list(config.allowed_origins)
    )


def run_http(config: Config, *, files_allowed: bool) -> None:
    """Serve until SIGTERM, then let calls in flight finish within the graceful time.

    Raises:
        SettingError: it would be open to strangers, or a setting does not fit.
    """
    check_exposure(config, config.host)
    if config.host not in LOOPBACK and "allowed_hosts" not in config.model_fields_set:
        logger.warning(
            "host=%s is open to others, but only requests for localhost are let in; "
            "set SIE_MCP_ALLOWED_HOSTS to the names that callers use",
            config.host,
        )
    probes = Probes()
    server = WebServer(
        uvicorn.Config(
            build_app(config, files_allowed=files_allowed, probes=probes),
            host=config.host,
            port=config.port,
            log_config=None,
            http=HttpProtocol,
            access_log=False,
            timeout_graceful_shutdown=config.graceful_timeout_s,
            timeout_keep_alive=config.keep_alive_s,
        )
    )
    serve_until_told(server, drain_s=config.drain_s, not_ready=probes.drain)


async def _openapi(_: Request) -> Response:
    return Response(openapi_json(), media_type="application/json")


async def _failed(request: Request, _: Exception) -> Response:
    """Answer what nothing foresaw; the reason goes to the log alone."""
    return error_response(SieError("internal error; see the gateway's log"), request.url.path)


def _no_control() -> Route:
    """Refuse to move models: who can reach a gateway need not be who may empty its memory."""

    async def refuse(_: Request) -> Response:
        return error_response(
            NotAllowed(
                "this gateway does not let callers load, unload or pin models; start it with "
                "SIE_MCP_ALLOW_MODEL_CONTROL=true"
            )
        )

    return Route("/v1/models/{path:path}", refuse, methods=["POST"])


async def _between_us(_: Request) -> Response:
    """Refuse to hand on what gateways themselves tell workers."""
    return error_response(NotAllowed("what workers pull is theirs and the gateways' alone"))


def _scale(endpoint: Endpoint) -> list[Route]:
    """Return where what starts and stops workers looks; there is nothing to scale without pools."""
    return (
        ScaleRoute(endpoint.pools).routes() if isinstance(endpoint, Pools | QueueEndpoint) else []
    )


def _pages(console: Console | None, security: TransportSecuritySettings) -> list[Route]:
    """Return the console's routes; its pages hold no data, but no other site may read the state."""
    if console is None:
        return []
    return [Route(path, Guarded(console.app, security)) for path in console.paths]


def _metrics(config: Config, probes: Probes, access: Access) -> list[Route]:
    """Return where figures are read, and by whom."""
    if config.expose_metrics == "off":
        return []
    if config.expose_metrics == "open":
        return [Route("/metrics", probes.metrics)]
    page = Router([Route("/metrics", probes.metrics)])
    return [Route("/metrics", Gate(page, access, counts=False))]


class _McpPath:
    """The MCP path alone, and no GET there: the older era would hold an idle stream open for each.

    Any other path is for whoever stands around to refuse, in its own words.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"].rstrip("/") != MCP_PATH:
                raise HTTPException(404)
            if scope["method"] == "GET":
                refusal = JSONResponse(
                    {"error": "this server is stateless: POST only"}, 405, {"Allow": "POST"}
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
