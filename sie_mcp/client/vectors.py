"""What a client may look vectors up in before it asks a worker. Types alone."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from sie_mcp import wire

# One request of ours, to a worker.
Ask = Callable[[str, wire.EncodeRequest], Awaitable[wire.EncodeResponse]]
# Which numbers a model gives now, alone or with an adapter.
AskRevision = Callable[[str, str | None], Awaitable[wire.Revision]]


class Answered(Protocol):
    """An answer, wherever it is from."""

    @property
    def response(self) -> wire.EncodeResponse:
        """One entry an item, in order."""


class KnownVectors(Protocol):
    """Answers with what is known, and asks for the rest."""

    async def answer(
        self, model: str, request: wire.EncodeRequest, ask: Ask, ask_revision: AskRevision
    ) -> Answered:
        """Answer a request.

        Args:
            model: As the caller names it; whether they may use it was asked before.
            request: What is wanted.
            ask: Asks a worker for what is missing, and names the revision in its answer.
            ask_revision: Asks a worker for the model's revision.

        Raises:
            SieError: of `ask` and `ask_revision`.
        """
