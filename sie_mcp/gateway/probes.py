"""Probes and metrics of a gateway. Outside the Host check: a kubelet asks by address."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sie_mcp import metrics
from sie_mcp.gateway.console.looks import Looks
from sie_mcp.gateway.health import health_of


class Probes:
    """`/healthz`, `/readyz`, the page of `/metrics`. Ready without a worker: it starts one.

    Attributes:
        looks: Sees workers, for `/health`.
    """

    def __init__(self) -> None:
        self.is_ready = False
        self.looks: Looks | None = None

    def drain(self) -> None:
        """Say that this gateway leaves."""
        self.is_ready = False

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/health", self._health),
        ]

    async def _healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readyz(self, _: Request) -> Response:
        if self.is_ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "draining"}, status_code=503)

    async def _health(self, _: Request) -> Response:
        """What SIE's SDK knows a gateway by, and how many workers there are."""
        pools = await self.looks.now() if self.looks is not None else ()
        body = health_of(pools, is_ready=self.is_ready)
        return JSONResponse(body, status_code=200 if self.is_ready else 503)

    async def metrics(self, _: Request) -> Response:
        """Return the page of figures."""
        return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)
