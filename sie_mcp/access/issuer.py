"""The public keys of an issuer of tokens: found, fetched, kept, and fetched again within bounds.

Only the issuer that was configured is ever asked; nothing in a token chooses an address.
"""

import logging
import time
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt

from sie_mcp.errors import IssuerUnavailable, NotAuthenticated

logger = logging.getLogger(__name__)

KEYS_AGE_S = 600.0
# A token with a key that is not known asks for new keys at most this often.
REFRESH_EVERY_S = 30.0
# While the issuer does not answer, keys are used for so long.
MAX_KEYS_AGE_S = 86_400.0
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 512 * 1024
MAX_KEYS = 100


class IssuerKeys:
    """The keys of one issuer. Safe for many tasks.

    Args:
        issuer: Its URL, as in `iss`.
        jwks_url: Where its keys are; None finds out from its metadata.
    """

    def __init__(self, issuer: str, jwks_url: str | None) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_s: float | None = None
        self._tried_s: float | None = None
        self._lock = anyio.Lock()
        self._http = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """Return the key of this id; without an id the only one.

        Raises:
            NotAuthenticated: the issuer has no such key.
            IssuerUnavailable: it does not answer, and no keys of it are known.
        """
        if self._must_fetch(key_id):
            async with self._lock:
                if self._must_fetch(key_id):
                    await self._fetch()
        if self._fetched_s is None or self._age_s() > MAX_KEYS_AGE_S:
            raise IssuerUnavailable(
                "the issuer of tokens does not answer; call again", retry_after_s=REFRESH_EVERY_S
            )
        found = self._find(key_id)
        if found is None:
            raise NotAuthenticated("the token is signed with a key that its issuer does not have")
        return found

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()

    def _find(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id or "")

    def _must_fetch(self, key_id: str | None) -> bool:
        if self._tried_s is not None and time.monotonic() - self._tried_s < REFRESH_EVERY_S:
            return False
        return self._fetched_s is None or self._age_s() > KEYS_AGE_S or self._find(key_id) is None

    def _age_s(self) -> float:
        return time.monotonic() - (self._fetched_s or 0.0)

    async def _fetch(self) -> None:
        """Fetch the keys; those that are there stay where that fails."""
        self._tried_s = time.monotonic()
        try:
            url = self._jwks_url or await self._discover()
            found = (await self._get(url)).get("keys")
            keys = _usable(found if isinstance(found, list) else [])
            if not keys:
                raise ValueError(f"{url} holds no key for signatures")
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
            logger.warning("keys of the issuer were not fetched: %s", error)
            return
        self._jwks_url, self._keys = url, keys
        self._fetched_s = time.monotonic()

    async def _discover(self) -> str:
        """Return where the keys are, by RFC 8414 or by OpenID Connect Discovery."""
        parts = urlsplit(self._issuer)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        problem = ""
        for url in (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}{path}/.well-known/openid-configuration",
            f"{origin}/.well-known/openid-configuration{path}",
        ):
            try:
                found = await self._get(url)
            except (httpx2.HTTPError, ValueError, TimeoutError) as error:
                problem = str(error)
                continue
            jwks_url = found.get("jwks_uri")
            if found.get("issuer") == self._issuer and isinstance(jwks_url, str):
                if is_safe(jwks_url):
                    return jwks_url
                problem = f"{jwks_url} is not https"
            else:
                problem = f"{url} is not of this issuer"
        raise ValueError(problem)

    async def _get(self, url: str) -> dict[str, Any]:
        return await ask_json(self._http, "GET", url)


async def ask_json(
    http: httpx2.AsyncClient, method: str, url: str, **request: Any
) -> dict[str, Any]:
    """Return the JSON object that a request is answered with, within bounds of time and size.

    Raises:
        ValueError: it is answered otherwise; HTTPError and TimeoutError if not at all.
    """
    content = bytearray()
    headers = {"Accept": "application/json"}
    with anyio.fail_after(TIMEOUT_S * 2):
        async with http.stream(method, url, headers=headers, **request) as got:
            if got.status_code != 200:
                raise ValueError(f"{url} answers {got.status_code}")
            async for chunk in got.aiter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise ValueError(f"{url} answers over {MAX_ANSWER_BYTES:,} bytes")
    body = httpx2.Response(200, content=bytes(content)).json()
    if not isinstance(body, dict):
        raise ValueError(f"{url} is no JSON object")
    return body


def is_safe(url: str) -> bool:
    """Whether what comes from a URL can be trusted: https, or from this machine."""
    parts = urlsplit(url)
    is_local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    return bool(parts.hostname) and (
        parts.scheme == "https" or (is_local and parts.scheme == "http")
    )


def _usable(found: list[object]) -> dict[str, jwt.PyJWK]:
    """Return the public keys that sign, by their ids; keys of kinds that are not known are left."""
    keys: dict[str, jwt.PyJWK] = {}
    for one in found[:MAX_KEYS]:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or one.get("kty") == "oct":
            continue
        try:
            key = jwt.PyJWK(one)
        except (jwt.PyJWTError, ValueError):
            continue
        keys[str(one.get("kid", ""))] = key
    return keys
