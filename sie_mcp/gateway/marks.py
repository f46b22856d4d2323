"""What marks a request on its way: its id, and the trace that it belongs to. Plain ASGI."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sie_mcp import request_ids, tracing


class Marks:
    """Takes both from the headers; the id is in the answer's too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token = request_ids.take(headers.get(request_ids.HEADER))

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[request_ids.HEADER] = request_ids.current()
            await send(message)

        try:
            with tracing.attached(headers):
                await self._app(scope, receive, marked)
        finally:
            request_ids.leave(token)
