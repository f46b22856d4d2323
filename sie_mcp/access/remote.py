"""What a worker on a port needs and one on a Unix socket does not: who calls, and may they?

Imported by name: its libraries take a tenth of a second of a start.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from sie_mcp.access.gate import Access, Gate, permission_of
from sie_mcp.access.setup import LOOPBACK, make_access
from sie_mcp.http_ends import PROBES

__all__ = ["LOOPBACK", "behind_gate", "make_access"]


def behind_gate(app: ASGIApp, access: Access) -> ASGIApp:
    """Ask who calls /v1, where the settings say so; probes and figures stay open."""
    if access.authenticator is None:
        return app
    gate = Gate(app, access, needs=permission_of)

    async def gated(scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or scope["path"] in PROBES
        await (app if is_open else gate)(scope, receive, send)

    return gated
