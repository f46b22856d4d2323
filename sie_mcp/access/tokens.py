"""Bearer tokens of an authorization server: JWTs (RFC 9068), checked here, never asked about."""

from collections.abc import Mapping
from typing import Any

import jwt

from sie_mcp.access.bearer import bearer_of
from sie_mcp.access.issuer import IssuerKeys
from sie_mcp.access.principal import NO_LIMITS, CallerLimits, Principal
from sie_mcp.errors import NotAuthenticated

# Signatures of a private key. One that a public key can make too would let anybody sign.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
# Clocks of two machines differ.
LEEWAY_S = 30
MAX_SCOPES = 200


class Tokens:
    """Identifies callers by tokens of one issuer, made for one resource.

    Args:
        issuer: What `iss` must be.
        resource: What `aud` must hold: this server's URL.
        keys: Of the issuer.
        limits: Of each caller.
    """

    def __init__(
        self, issuer: str, resource: str, keys: IssuerKeys, limits: CallerLimits = NO_LIMITS
    ) -> None:
        self._issuer = issuer
        self._resource = resource
        self._keys = keys
        self._limits = limits

    async def identify(self, headers: Mapping[str, str]) -> Principal:
        """Return whose token a request has.

        Raises:
            NotAuthenticated: none, or one that is not good here; the message says why.
            IssuerUnavailable: it cannot be checked now.
        """
        token = bearer_of(headers)
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS or "crit" in header:
                raise NotAuthenticated(f"tokens are signed with one of {', '.join(ALGORITHMS)}")
            key = await self._keys.key(header.get("kid"))
            claims = self._verified(token, key)
        except jwt.ExpiredSignatureError as error:
            raise NotAuthenticated("the token has expired") from error
        except jwt.InvalidAudienceError as error:
            raise NotAuthenticated(f"the token is not for {self._resource}") from error
        except jwt.InvalidIssuerError as error:
            raise NotAuthenticated("the token is of another issuer") from error
        except jwt.MissingRequiredClaimError as error:
            raise NotAuthenticated(f"the token has no {error.claim}") from error
        except (jwt.PyJWTError, ValueError) as error:
            raise NotAuthenticated("this is no token, or its signature is wrong") from error
        return principal_of(claims, self._limits)

    async def aclose(self) -> None:
        """Close connections to the issuer."""
        await self._keys.aclose()

    def _verified(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        return jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            audience=self._resource,
            issuer=self._issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud"], "strict_aud": False},
        )


def principal_of(claims: Mapping[str, Any], limits: CallerLimits) -> Principal:
    """Return whom claims that were checked are about.

    Raises:
        NotAuthenticated: nobody.
    """
    subject = claims.get("sub") or claims.get("client_id") or claims.get("azp")
    if not isinstance(subject, str) or not subject:
        raise NotAuthenticated("the token names neither a subject nor a client")
    return Principal(name=f"subject:{subject}", scopes=frozenset(_scopes(claims)), limits=limits)


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """Return `scope`, or `scp` as some issuers have it: words of a text, or a list."""
    found = claims.get("scope", claims.get("scp", []))
    parts = found.split() if isinstance(found, str) else found
    if not isinstance(parts, list):
        return []
    return [part for part in parts[:MAX_SCOPES] if isinstance(part, str)]
