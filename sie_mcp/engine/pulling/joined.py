"""Joins a worker's broker, its routes and what it pulls; nothing where no queue is set."""

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.broker.open import open_broker
from sie_mcp.broker.pull_request import PATH, PullAnswer, PullRequest
from sie_mcp.config import Config
from sie_mcp.engine.http import read_body, route
from sie_mcp.engine.pulling.inside import Inside
from sie_mcp.engine.pulling.pulling import Pulling
from sie_mcp.engine.server import Activity

MAX_BODY_BYTES = 256 * 1024


def make_pulling(config: Config, app: ASGIApp, activity: Activity) -> Pulling | None:
    """Return what pulls for a worker; None where `queue_uri` is not set.

    Raises:
        SettingError: the broker's client is not installed.
    """
    broker = open_broker(config, "sie-mcp worker")
    if broker is None:
        return None
    inside = Inside(app)
    return Pulling(broker, config.queue_pool, inside.run, is_draining=lambda: activity.is_draining)


def with_pull_route(app: ASGIApp, pulling: Pulling | None) -> ASGIApp:
    """Return a worker's routes with the one by which gateways say what to pull."""
    if pulling is None:
        return app

    async def pull(request: Request) -> PullAnswer:
        return pulling.take(await read_body(request, PullRequest, MAX_BODY_BYTES))

    told = Route(PATH, route("pull", pull), methods=["POST"])

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        is_told = scope["type"] == "http" and scope["path"] == PATH
        await (told.app if is_told else app)(scope, receive, send)

    return routed
