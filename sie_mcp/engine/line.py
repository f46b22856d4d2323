"""All sequences of one priority: models in turn, in each model its clients side by side.

A pure thing, as the scheduler is.
"""

from collections.abc import Iterable, Mapping
from typing import Generic

from sie_mcp.engine.flow import Flow
from sie_mcp.engine.tickets import OwnerT, Ticket
from sie_mcp.engine.turns import Turns


class Line(Generic[OwnerT]):
    """Flows by model and client, those with work alone.

    Args:
        turn_tokens: Of one model's turn.
        weights: Of the models.
        long_from: A sequence of more tokens than this is long.
    """

    def __init__(self, turn_tokens: int, weights: Mapping[str, float], long_from: int) -> None:
        self._turns = Turns(turn_tokens, weights)
        self._long_from = long_from
        self._flows: dict[str, dict[int | None, Flow[OwnerT]]] = {}

    def add(self, ticket: Ticket[OwnerT]) -> None:
        """Queue a sequence."""
        if ticket.model not in self._flows:
            self._flows[ticket.model] = {}
            self._turns.enter(ticket.model)
        flows = self._flows[ticket.model]
        client = ticket.terms.client
        if client not in flows:
            # Level with who had least: a newcomer cannot claim the time it was away.
            level = min((flow.served_tokens for flow in flows.values()), default=0)
            flows[client] = Flow(level, self._long_from)
        flows[client].add(ticket)

    def drop(self, ticket: Ticket[OwnerT]) -> None:
        """Forget a sequence that is done without having run."""
        self._flows[ticket.model][ticket.terms.client].drop(ticket)
        self._tidy(ticket)

    def take(self, ticket: Ticket[OwnerT]) -> None:
        """Remove a sequence that a flow's `next` returned, to run it."""
        self._flows[ticket.model][ticket.terms.client].take(ticket)
        self._turns.charge(ticket.model, ticket.num_tokens)
        self._tidy(ticket)

    def next_model(self) -> str | None:
        """Return the model whose turn it is; None when nothing waits."""
        return self._turns.next()

    def flows(self, model: str) -> Iterable[Flow[OwnerT]]:
        """Return what each client waits for of a model."""
        return self._flows.get(model, {}).values()

    def oldest(self) -> Ticket[OwnerT] | None:
        """Return the sequence that came first."""
        heads = [
            head
            for model in self._flows
            for flow in self.flows(model)
            if (head := flow.next(by_age=True, with_long=True)) is not None
        ]
        return min(heads, key=lambda ticket: ticket.number, default=None)

    def _tidy(self, ticket: Ticket[OwnerT]) -> None:
        """Keep nothing of who has no work."""
        flows = self._flows[ticket.model]
        if not flows[ticket.terms.client].num_waiting:
            del flows[ticket.terms.client]
        if not flows:
            del self._flows[ticket.model]
            self._turns.leave(ticket.model)
