"""What one request of a caller may still do; it travels with the request."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sie_mcp.access.principal import Principal
from sie_mcp.errors import NotAllowed

# Where an ASGI scope holds it.
SCOPE_KEY = "sie.allowance"
# Before a text is tokenised.
BYTES_PER_TOKEN = 4


class Counts(Protocol):
    """What counts, and refuses with RateLimited; see rates.py."""

    async def count_request(self, principal: Principal) -> None:
        """Count one request."""

    async def count_tokens(self, principal: Principal, num_tokens: int) -> None:
        """Count tokens that are about to be sent."""

    def running(self, principal: Principal) -> AbstractContextManager[None]:
        """Count a request while it runs."""


class Allowance:
    """A caller and its account.

    Args:
        principal: The caller.
        rates: The account.
        is_identified: Whether it was shown who it is; else it is an address.
    """

    def __init__(self, principal: Principal, rates: Counts, *, is_identified: bool = True) -> None:
        self.principal = principal
        self.is_identified = is_identified
        self._rates = rates

    async def count_request(self) -> None:
        """Count one request or tool call.

        Raises:
            RateLimited: one too many in a minute.
        """
        await self._rates.count_request(self.principal)

    async def admit(self, model: str, num_bytes: int) -> None:
        """Let work go to a model.

        Args:
            model: The name that the caller gave, or the tool for it.
            num_bytes: Of texts, for about how many tokens they are.

        Raises:
            NotAllowed: not this model.
            RateLimited: too many tokens in a minute.
        """
        self.check_model(model)
        await self._rates.count_tokens(self.principal, num_bytes // BYTES_PER_TOKEN)

    def check_model(self, model: str) -> None:
        """Refuse a model that is not the caller's.

        Raises:
            NotAllowed: naming those that are.
        """
        if not self.principal.may_use(model):
            names = ", ".join(self.principal.models or ()) or "none"
            raise NotAllowed(f"you may not use model {model[:200]!r}; you may use: {names}")

    def check_tool(self, tool: str) -> None:
        """Refuse a tool that is not the caller's.

        Raises:
            NotAllowed: naming those that are.
        """
        if not self.principal.may_call(tool):
            names = ", ".join(self.principal.tools or ()) or "none"
            raise NotAllowed(f"you may not call {tool[:80]!r}; you may call: {names}")

    def running(self) -> AbstractContextManager[None]:
        """Count a call while it runs.

        Raises:
            RateLimited: too many run already.
        """
        return self._rates.running(self.principal)


def allowance_of(scope: Mapping[str, Any]) -> Allowance | None:
    """Return what came with a request; None where nobody was asked who they are."""
    found = scope.get(SCOPE_KEY)
    return found if isinstance(found, Allowance) else None
