"""Names for the old era's clients, which send a session id that they were given with every request.

There are no sessions here: any replica takes any name, and none is kept. A name only tells whose
requests belong together, and as nobody else knows it, nobody can speak for its client.
"""

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"


class SessionNames:
    """Gives a name in the answer to a request that has neither a name nor a version.

    That is `initialize`, the first of a client; of the bodies nothing is read. Clients of the
    oldest revision send no version at all, and take a name from that answer only.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        headers = Headers(scope=scope) if scope["type"] == "http" else None
        is_first = headers is not None and not (
            SESSION_HEADER in headers or VERSION_HEADER in headers
        )

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                MutableHeaders(scope=message).setdefault(SESSION_HEADER, secrets.token_urlsafe(24))
            await send(message)

        await self._app(scope, receive, named if is_first else send)
