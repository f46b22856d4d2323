"""`sie-mcp serve`: MCP over stateless HTTP, the worker's routes beside it, probes and metrics.

The composition root of the HTTP side.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.config import Config
from sie_mcp.errors import NotAllowed
from sie_mcp.gateway.endpoint import choose_endpoint, make_client
from sie_mcp.gateway.probes import Probes
from sie_mcp.gateway.proxy import Proxy, error_response
from sie_mcp.gateway.server import build_server
from sie_mcp.gateway.session_names import SessionNames
from sie_mcp.tools.context import ToolContext

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]

MCP_PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A tool call's texts; large data belongs in files or in /v1.
MAX_MCP_BODY_BYTES = 16 * 1024 * 1024


def build_app(config: Config, *, files_allowed: bool) -> Starlette:
    """Join MCP, proxy and probes. Over HTTP files are off unless folders were named."""
    endpoint = choose_endpoint(config)
    client = make_client(endpoint, config)
    proxy = Proxy(
        endpoint, timeout_s=config.request_timeout_s, max_body_bytes=config.max_body_bytes
    )
    server = build_server(client, config, files_allowed=files_allowed)
    security = _security(config)
    probes = Probes()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            probes.is_ready = True
            yield
            probes.is_ready = False
        await client.aclose()
        await proxy.aclose()

    return Starlette(
        routes=[
            *probes.routes(),
            *([] if config.allow_model_control else [_no_control()]),
            Route("/v1/{path:path}", _guarded(proxy.handle, security), methods=["GET", "POST"]),
            Mount("/", app=build_mcp_app(server, config)),
        ],
        lifespan=lifespan,
    )


def build_mcp_app(server: MCPServer[ToolContext], config: Config) -> ASGIApp:
    """Return the MCP path of a server. Its session manager has to run while it is used."""
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=False,
        max_request_body_size=MAX_MCP_BODY_BYTES,
        transport_security=_security(config),
    )
    return _NoIdleStream(SessionNames(app))


def _security(config: Config) -> TransportSecuritySettings:
    return TransportSecuritySettings(
        allowed_hosts=list(config.allowed_hosts), allowed_origins=list(config.allowed_origins)
    )


def run_http(config: Config, *, files_allowed: bool) -> None:
    """Serve until SIGTERM, then let calls in flight finish within the graceful time."""
    if config.host not in LOOPBACK and "allowed_hosts" not in config.model_fields_set:
        logger.warning(
            "host=%s is open to others, but only requests for localhost are let in; "
            "set SIE_MCP_ALLOWED_HOSTS to the names that callers use",
            config.host,
        )
    uvicorn.run(
        build_app(config, files_allowed=files_allowed),
        host=config.host,
        port=config.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=config.graceful_timeout_s,
    )


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


def _guarded(handler: Handler, security: TransportSecuritySettings) -> Handler:
    """Check Host and Origin first: a web page must not reach the models through its reader."""
    doorkeeper = TransportSecurityMiddleware(security)

    async def guarded(request: Request) -> Response:
        refusal = await doorkeeper.validate_request(request)
        return refusal or await handler(request)

    return guarded


class _NoIdleStream:
    """Refuses GET on the MCP path: the older era would hold an idle stream open for each."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = scope["type"] == "http" and scope["method"] == "GET"
        if is_stream and scope["path"].rstrip("/") == MCP_PATH:
            refusal = JSONResponse(
                {"error": "this server is stateless: POST only"}, 405, {"Allow": "POST"}
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)
