"""Probes and metrics of a gateway. Outside the Host check: a kubelet asks by address."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sie_mcp import metrics
from sie_mcp.gateway.console.looks import Looks
from sie_mcp.gateway.health import health_of
from sie_mcp.gateway.readiness import Readiness


class Probes:
    """`/healthz`, `/readyz`, the page of `/metrics`.

    `/readyz` says what there is of workers; without any a gateway is ready all the same, but for
    one that has a single worker at a fixed address: see `readiness`. `/healthz` never asks for
    workers, for a new gateway would have no others.

    Attributes:
        looks: Sees workers, for `/health`.
        readiness: Knows whether there can be a worker.
    """

    def __init__(self) -> None:
        self.is_ready = False
        self.looks: Looks | None = None
        self.readiness: Readiness | None = None

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
        if not self.is_ready:
            return JSONResponse({"status": "draining"}, status_code=503)
        if self.readiness is None:
            return JSONResponse({"status": "ready"})
        is_lost = await self.readiness.is_lost()
        pools = self.readiness.counts()
        body = {"status": "no worker" if is_lost else "ready", "pools": pools}
        return JSONResponse(body, status_code=503 if is_lost else 200)

    async def _health(self, _: Request) -> Response:
        """What SIE's SDK knows a gateway by, and how many workers there are."""
        pools = await self.looks.now() if self.looks is not None else ()
        body = health_of(pools, is_ready=self.is_ready)
        return JSONResponse(body, status_code=200 if self.is_ready else 503)

    async def metrics(self, _: Request) -> Response:
        """Return the page of figures."""
        return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)
