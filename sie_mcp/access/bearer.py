"""The credential in a request's Authorization header, and what identifies its holder."""

from collections.abc import Mapping
from typing import Protocol

from sie_mcp.access.principal import Principal
from sie_mcp.errors import NotAuthenticated

MAX_CREDENTIAL_CHARS = 16_384


class Authenticator(Protocol):
    """Tells who sent a request."""

    async def identify(self, headers: Mapping[str, str]) -> Principal:
        """Return who it is.

        Raises:
            NotAuthenticated: it cannot be told, or is nobody.
            IssuerUnavailable: what a token is checked with cannot be had now.
        """

    async def aclose(self) -> None:
        """Close what is open."""


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the bearer credential.

    Raises:
        NotAuthenticated: there is none.
    """
    scheme, _, credential = headers.get("authorization", "").strip().partition(" ")
    credential = credential.strip()
    if scheme.lower() != "bearer" or not credential:
        raise NotAuthenticated("send your credential as 'Authorization: Bearer …'")
    if len(credential) > MAX_CREDENTIAL_CHARS:
        raise NotAuthenticated(f"a credential has at most {MAX_CREDENTIAL_CHARS:,} characters")
    return credential
