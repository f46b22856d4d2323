"""Bearer tokens that only their issuer can read: it is asked what each one is (RFC 7662).

Answers are kept for a short while, so that a token is not asked about with every call; where the
issuer cannot be asked, nobody passes.
"""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

import anyio
import httpx2

from sie_mcp.access.bearer import bearer_of
from sie_mcp.access.issuer import REFRESH_EVERY_S, TIMEOUT_S, ask_json
from sie_mcp.access.principal import NO_LIMITS, CallerLimits, Principal
from sie_mcp.access.tokens import LEEWAY_S, principal_of
from sie_mcp.errors import IssuerUnavailable, NotAuthenticated

logger = logging.getLogger(__name__)

# A token that was revoked is good for so long at most; one that was refused is asked about again.
KEPT_S = 60.0
REFUSED_S = 10.0
MAX_KEPT = 10_000
# Whoever waits longer for a place is told to call again.
MAX_ASKED_AT_ONCE = 20
PLACE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Client:
    """What this server is to the issuer, with its own name and secret."""

    name: str
    secret: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a token is, until when that counts; a problem in place of claims is a refusal."""

    until_s: float
    claims: dict[str, Any]
    problem: str = ""


class Introspection:
    """Identifies callers by asking the issuer about their tokens. Safe for many tasks.

    Args:
        url: Where to ask.
        issuer: What `iss` must be, where the answer has one.
        resource: What `aud` must hold: this server's URL.
        client: Who asks.
        limits: Of each caller.
    """

    def __init__(
        self, url: str, issuer: str, resource: str, client: Client, limits: CallerLimits = NO_LIMITS
    ) -> None:
        self._url = url
        self._issuer = issuer
        self._resource = resource
        self._limits = limits
        # RFC 6749, 2.3.1: both are encoded as in a form.
        self._auth = httpx2.BasicAuth(quote_plus(client.name), quote_plus(client.secret))
        self._http = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        self._places = anyio.CapacityLimiter(MAX_ASKED_AT_ONCE)
        # By digest, so that no token lies in memory longer than its request.
        self._kept: OrderedDict[bytes, Answer] = OrderedDict()

    async def identify(self, headers: Mapping[str, str]) -> Principal:
        """Return whose token a request has.

        Raises:
            NotAuthenticated: none, or one that is not good here; the message says why.
            IssuerUnavailable: the issuer cannot be asked now.
        """
        token = bearer_of(headers)
        digest = hashlib.blake2b(token.encode()).digest()
        answer = self._kept.get(digest)
        if answer is None or answer.until_s <= time.time():
            answer = self._judged(await self._ask(token))
            self._keep(digest, answer)
        if answer.problem:
            raise NotAuthenticated(answer.problem)
        return principal_of(answer.claims, self._limits)

    async def aclose(self) -> None:
        """Close connections to the issuer."""
        await self._http.aclose()

    async def _ask(self, token: str) -> dict[str, Any]:
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            with anyio.fail_after(PLACE_TIMEOUT_S):
                await self._places.acquire()
            try:
                return await ask_json(self._http, "POST", self._url, data=form, auth=self._auth)
            finally:
                self._places.release()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
            logger.warning("the issuer could not be asked about a token: %s", error)
            raise IssuerUnavailable(
                "the issuer of tokens does not answer; call again", retry_after_s=REFRESH_EVERY_S
            ) from error

    def _judged(self, claims: dict[str, Any]) -> Answer:
        """Return for how long an answer counts, and what is wrong with the token."""
        now_s = time.time()
        problem = self._problem(claims, now_s)
        if problem:
            return Answer(now_s + REFUSED_S, {}, problem)
        ends_s = claims.get("exp", now_s + KEPT_S)
        return Answer(min(now_s + KEPT_S, ends_s + LEEWAY_S), claims)

    def _problem(self, claims: dict[str, Any], now_s: float) -> str:
        if claims.get("active") is not True:
            return "the token is not active: it is unknown, revoked or has expired"
        for name in ("exp", "nbf"):
            value = claims.get(name, now_s)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return f"the token's {name} is no time"
        if claims.get("exp", now_s) < now_s - LEEWAY_S:
            return "the token has expired"
        if claims.get("nbf", now_s) > now_s + LEEWAY_S:
            return "the token is not good yet"
        if claims.get("iss", self._issuer) != self._issuer:
            return "the token is of another issuer"
        audience = claims.get("aud")
        if self._resource not in (audience if isinstance(audience, list) else [audience]):
            return f"the token is not for {self._resource}"
        return ""

    def _keep(self, digest: bytes, answer: Answer) -> None:
        self._kept[digest] = answer
        self._kept.move_to_end(digest)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
