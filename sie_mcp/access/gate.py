"""The gate in front of an application: who calls is found out before anything is read.

A plain ASGI wrapper. Refusals are the error envelope of /v1, with what clients of OAuth look for.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sie_mcp import metrics
from sie_mcp.access.allowance import SCOPE_KEY, Allowance
from sie_mcp.access.bearer import Authenticator
from sie_mcp.access.principal import CONTROL, NO_LIMITS, RUN, CallerLimits, Principal
from sie_mcp.access.rates import Rates
from sie_mcp.codec import JSON, encode_body
from sie_mcp.dialects.table import error_body, status_of
from sie_mcp.errors import IssuerUnavailable, NotAllowed, NotAuthenticated, RateLimited, SieError

logger = logging.getLogger(__name__)

# A caller that sends its body more slowly is taken for gone.
BODY_TIMEOUT_S = 60.0
TOO_SLOW = 408

# Which permission a request needs.
Needs = Callable[[Scope], str]


@dataclass(frozen=True, slots=True)
class Access:
    """What a gate asks.

    Attributes:
        authenticator: None lets everybody in; an address is then a caller.
        limits: Of callers that nobody identified.
        metadata_url: Of the protected resource, for clients that look for a token.
    """

    rates: Rates
    authenticator: Authenticator | None = None
    limits: CallerLimits = NO_LIMITS
    metadata_url: str | None = None

    async def aclose(self) -> None:
        """Close connections."""
        await self.rates.aclose()
        if self.authenticator is not None:
            await self.authenticator.aclose()


class Gate:
    """Lets requests through to `app` whose caller may send them.

    Args:
        app: What stands behind.
        access: Who may pass.
        needs: The permission that a request needs.
        counts: Count requests here; where it is False, `app` counts with the allowance.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        *,
        needs: Needs = lambda _: RUN,
        counts: bool = True,
    ) -> None:
        self._app = app
        self._access = access
        self._needs = needs
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as held:
            try:
                allowance = await self._allowance(scope)
                if self._counts:
                    held.enter_context(allowance.running())
                    await allowance.count_request()
            except (NotAllowed, IssuerUnavailable, RateLimited) as error:
                await self._refuse(error, scope, receive, send)
                return
            inner = {**scope, SCOPE_KEY: allowance}
            timed = _Timed(receive, send)
            try:
                await self._app(inner, timed.receive, timed.send)
            except ClientDisconnect:
                if not timed.has_answered:
                    await Response(status_code=TOO_SLOW)(scope, receive, send)

    async def _allowance(self, scope: Scope) -> Allowance:
        authenticator = self._access.authenticator
        if authenticator is None:
            client = scope.get("client")
            principal = Principal(
                f"address:{client[0] if client else ''}", limits=self._access.limits
            )
            return Allowance(principal, self._access.rates, is_identified=False)
        principal = await authenticator.identify(Headers(scope=scope))
        needed = self._needs(scope)
        if needed not in principal.scopes:
            raise NotAllowed(f"this needs the permission {needed}")
        return Allowance(principal, self._access.rates)

    async def _refuse(self, error: SieError, scope: Scope, receive: Receive, send: Send) -> None:
        if not isinstance(error, RateLimited):
            metrics.NOT_AUTHENTICATED.labels(str(error.status)).inc()
        response = error_response(error, scope["path"])
        if isinstance(error, NotAllowed):
            response.headers["WWW-Authenticate"] = self._challenge(error, self._needs(scope))
        await response(scope, receive, send)

    def _challenge(self, error: NotAllowed, needed: str) -> str:
        """Return what RFC 6750 and RFC 9728 say of a credential that is missing or not enough."""
        parts = ['Bearer realm="sie-mcp"']
        if not isinstance(error, NotAuthenticated):
            parts += ['error="insufficient_scope"', f'scope="{needed}"']
        elif self._access.metadata_url is not None:
            parts += ['error="invalid_token"', f'scope="{needed}"']
        if self._access.metadata_url is not None:
            parts.append(f'resource_metadata="{self._access.metadata_url}"')
        return ", ".join(parts)


def permission_of(scope: Scope) -> str:
    """Return what a request needs: models are moved by POST, everything else runs them."""
    moves = scope["method"] == "POST" and scope["path"].startswith("/v1/models/")
    return CONTROL if moves else RUN


def error_response(error: SieError, path: str = "") -> Response:
    """Turn an error into its envelope in the dialect of the path, as the worker does."""
    headers = {"X-SIE-Error-Code": error.code}
    if error.retry_after_s is not None:
        headers["Retry-After"] = f"{max(error.retry_after_s, 1):.0f}"
    body = encode_body(error_body(path, error), JSON)
    return Response(body, status_code=status_of(path, error), media_type=JSON, headers=headers)


class _Timed:
    """One exchange whose body comes within its time; after that its sender counts as gone."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._left_s = BODY_TIMEOUT_S
        self._is_read = False
        self._is_late = False
        self.has_answered = False

    async def receive(self) -> Message:
        """Receive the next part; only the time in which its sender is waited for counts."""
        if self._is_read:
            return await self._receive()
        started_s = time.monotonic()
        try:
            with anyio.fail_after(self._left_s):
                message = await self._receive()
        except TimeoutError:
            logger.info("a caller was too slow with its body")
            self._is_late = True
            return {"type": "http.disconnect"}
        self._left_s = max(self._left_s - (time.monotonic() - started_s), 0.0)
        self._is_read = self._is_read or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send; what an application makes of a caller that is gone is no fault of its own."""
        self.has_answered = True
        if self._is_late and message["type"] == "http.response.start":
            message = {**message, "status": TOO_SLOW}
        await self._send(message)
