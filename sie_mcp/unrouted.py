"""Requests that no route takes as they are: HEAD, and paths or methods that nothing serves.

For every HTTP door of ours; knows no route.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.codec import JSON, encode_body


class HeadAsGet:
    """Lets an application answer HEAD as GET; what serves it leaves the body out.

    So status, length and every other header are GET's, refusals' too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # A copy: the server leaves a body out by the method of its own.
            scope = dict(scope, method="GET")
        await self._app(scope, receive, send)


async def no_route(request: Request, error: Exception) -> Response:
    """Answer what no route takes: its path, or its method there."""
    assert isinstance(error, HTTPException)
    code = "METHOD_NOT_ALLOWED" if error.status_code == 405 else "NOT_FOUND"
    message = f"no route {request.method} here; GET /openapi.json lists them"
    content = encode_body({"error": {"code": code, "message": message}}, JSON)
    headers = {**(error.headers or {}), "X-SIE-Error-Code": code}
    return Response(content, error.status_code, headers, JSON)
