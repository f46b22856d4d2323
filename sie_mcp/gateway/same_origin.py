"""A page that this server itself served may call it: its origin is the host that it calls.

Which hosts there are is for the Host check to say; it sees the request next.
"""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

SCHEMES = ("http", "https")


class SameOrigin:
    """Takes away an Origin that names the Host; any other stays, to be checked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] == "http":
            headers = MutableHeaders(scope=scope)
            host = headers.get("host")
            if host and headers.get("origin") in [f"{scheme}://{host}" for scheme in SCHEMES]:
                scope = dict(scope, headers=list(scope["headers"]))
                del MutableHeaders(scope=scope)["origin"]
        await self._app(scope, receive, send)
