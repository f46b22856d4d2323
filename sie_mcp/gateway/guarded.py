"""The check of Host and Origin: a web page must not reach the models through its reader."""

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.access.gate import error_response
from sie_mcp.errors import NotAllowed

_MISDIRECTED = 421
# What a header says comes from the caller.
_MAX_SHOWN_CHARS = 80


class Guarded:
    """Lets requests through whose Host and Origin are allowed; says which setting is for the rest.

    Args:
        app: What stands behind.
        security: Who is let in.
    """

    def __init__(self, app: ASGIApp, security: TransportSecuritySettings) -> None:
        self._app = app
        self._doorkeeper = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = await self._doorkeeper.validate_request(Request(scope, receive))
        if refusal is None:
            await self._app(scope, receive, send)
            return
        is_host = refusal.status_code == _MISDIRECTED
        response = error_response(_refused(Headers(scope=scope), is_host=is_host), scope["path"])
        response.status_code = refusal.status_code
        await response(scope, receive, send)


def _refused(headers: Headers, *, is_host: bool) -> NotAllowed:
    name, setting = ("Host", "ALLOWED_HOSTS") if is_host else ("Origin", "ALLOWED_ORIGINS")
    said = headers.get(name, "")[:_MAX_SHOWN_CHARS]
    return NotAllowed(
        f"{name} {said!r} is not let in here; call by a name that is, or start the server with "
        f"it in SIE_MCP_{setting}"
    )
