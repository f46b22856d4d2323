"""`sie-mcp endpoint-picker`: the choice of workers for a proxy; figures and probes beside it.

The composition root of the picker.
"""

import ipaddress
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from sie_mcp.config import Config
from sie_mcp.errors import SettingError
from sie_mcp.gateway.endpoint import choose_endpoint, read_worker_key
from sie_mcp.gateway.endpoint_picker.rules import Rules
from sie_mcp.gateway.endpoint_picker.server import Door, Ports, serving
from sie_mcp.gateway.leaving import serve_until_told
from sie_mcp.gateway.pool.plan import PoolPlan
from sie_mcp.gateway.pool.pools import Pools
from sie_mcp.gateway.pool.scale import ScaleRoute
from sie_mcp.gateway.probes import Probes
from sie_mcp.http_protocol import HttpProtocol

logger = logging.getLogger(__name__)

SYNC_EVERY_S = 0.05


def build_picker(config: Config, *, probes: Probes | None = None) -> Starlette:
    """Join pools, the gRPC side and the pages beside it; `app.state.ports` says where it listens.

    Raises:
        SettingError: there is nothing to choose among, or proxies could not reach it.
    """
    pools = choose_endpoint(config)
    if not isinstance(pools, Pools):
        raise SettingError("an endpoint picker chooses among several: set workers or pools_file")
    for name, one in pools.plan.pools.items():
        _check_places(name, one)
    rules = Rules(config.allow_model_control, config.allow_local_models, read_worker_key(config))
    probes = probes or Probes()
    figures = [Route("/metrics", probes.metrics)] if config.expose_metrics == "open" else []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pools.running(), anyio.create_task_group() as group:
            async with serving(pools, rules, _door(config), lambda: probes.is_ready) as ports:
                app.state.ports = ports
                group.start_soon(_become_ready, pools, probes)
                yield
                probes.drain()
            group.cancel_scope.cancel()

    app = Starlette(
        routes=[*probes.routes(), *ScaleRoute(pools.pools).routes(), *figures], lifespan=lifespan
    )
    app.state.pools, app.state.ports = pools, Ports(config.picker_port, config.picker_health_port)
    return app


def run_picker(config: Config) -> None:
    """Pick until SIGTERM, then until exchanges have ended, within the graceful time.

    Raises:
        SettingError: a setting does not fit.
    """
    probes = Probes()
    server = uvicorn.Server(
        uvicorn.Config(
            build_picker(config, probes=probes),
            host=config.host,
            port=config.port,
            log_config=None,
            http=HttpProtocol,
            access_log=False,
            timeout_graceful_shutdown=config.graceful_timeout_s,
        )
    )
    serve_until_told(server, drain_s=config.drain_s, not_ready=probes.drain)


async def _become_ready(pools: Pools, probes: Probes) -> None:
    """Say that the picker is ready once it has heard of every pool's workers."""
    while not all(pool.watch.is_known for pool in pools.pools.values()):
        await anyio.sleep(SYNC_EVERY_S)
    probes.is_ready = True


def _door(config: Config) -> Door:
    return Door(
        config.host,
        config.picker_port,
        config.picker_health_port,
        config.picker_certificate_dir,
        config.max_body_bytes,
        config.graceful_timeout_s,
    )


def _check_places(name: str, plan: PoolPlan) -> None:
    """Refuse workers that a proxy cannot be told of: it takes `ip:port` and speaks plain HTTP."""
    for url in plan.workers:
        parts = urlsplit(url)
        if parts.scheme == "dns":
            continue
        try:
            ipaddress.ip_address(parts.hostname or "")
        except ValueError as error:
            raise SettingError(
                f"pool {name}: {url!r} is no address that a proxy could be told; give "
                "http://IP:PORT, dns://host:port or a service"
            ) from error
        if parts.scheme != "http" or parts.port is None:
            raise SettingError(f"pool {name}: {url!r}: give http://IP:PORT")
