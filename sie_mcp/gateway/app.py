"""`sie-mcp serve`: MCP over stateless HTTP, the worker's routes beside it, probes and metrics.

The composition root of the gateway side.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp import metrics
from sie_mcp.client import Endpoint, EngineClient, FixedEndpoint
from sie_mcp.config import Config
from sie_mcp.gateway.proxy import Proxy
from sie_mcp.gateway.server import build_server
from sie_mcp.gateway.supervisor import LocalWorker

MCP_PATH = "/mcp"
# A tool call's texts; large data belongs in files or in /v1.
MAX_MCP_BODY_BYTES = 16 * 1024 * 1024


def choose_endpoint(config: Config) -> Endpoint:
    """Return the worker at worker_url, else the shared local one."""
    if config.worker_url is not None:
        return FixedEndpoint(config.worker_url)
    return LocalWorker(config)


def make_client(endpoint: Endpoint, config: Config) -> EngineClient:
    """Return the tools' client."""
    return EngineClient(
        endpoint, load_wait_s=config.load_wait_s, timeout_s=config.request_timeout_s
    )


def build_app(config: Config, *, files_allowed: bool) -> Starlette:
    """Join MCP, proxy and probes. Over HTTP files are off unless folders were named."""
    endpoint = choose_endpoint(config)
    client = make_client(endpoint, config)
    proxy = Proxy(
        endpoint, timeout_s=config.request_timeout_s, max_body_bytes=config.max_body_bytes
    )
    server = build_server(client, config, files_allowed=files_allowed)
    mcp_app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=False,
        max_request_body_size=MAX_MCP_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            allowed_hosts=list(config.allowed_hosts), allowed_origins=list(config.allowed_origins)
        ),
    )
    state = {"is_ready": False}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            state["is_ready"] = True
            yield
            state["is_ready"] = False
        await client.aclose()
        await proxy.aclose()

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        status = 200 if state["is_ready"] else 503
        return JSONResponse({"status": "ready" if status == 200 else "draining"}, status)

    async def metrics_page(_: Request) -> Response:
        return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics_page),
            Route("/v1/{path:path}", proxy.handle, methods=["GET", "POST"]),
            Mount("/", app=_NoIdleStream(mcp_app)),
        ],
        lifespan=lifespan,
    )


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


def run_http(config: Config, *, files_allowed: bool) -> None:
    """Serve until SIGTERM, then let calls in flight finish within the graceful time."""
    uvicorn.run(
        build_app(config, files_allowed=files_allowed),
        host=config.host,
        port=config.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=config.graceful_timeout_s,
    )
