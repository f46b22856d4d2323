"""What may wait: permits in tokens and sequences, for all and for one client, and when to return.

A pure thing, as the scheduler is. Counts are by model, client and priority of what waits now, so
that nothing grows with who has ever called.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sie_mcp.engine.speeds import Speeds
from sie_mcp.engine.tickets import Priority, Terms, Ticket
from sie_mcp.errors import QueueFull, RateLimited

MIN_RETRY_S, MAX_RETRY_S = 0.1, 60.0
# Until a speed was measured.
UNKNOWN_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What may wait at once.

    Attributes:
        max_client_share: The part of both limits that one client may hold, where it is known.
    """

    max_tokens: int
    max_sequences: int
    max_client_share: float = 0.5


class Permits:
    """The account of what waits.

    Args:
        limits: What it may come to.
        speeds: How fast it goes.
    """

    def __init__(self, limits: QueueLimits, speeds: Speeds) -> None:
        self._limits = limits
        self._speeds = speeds
        self.tokens = 0
        self.sequences = 0
        self.model_tokens: Counter[str] = Counter()
        self.priority_tokens: Counter[Priority] = Counter()
        self._client_tokens: Counter[int | None] = Counter()
        self._client_sequences: Counter[int | None] = Counter()

    def check(self, tokens: int, sequences: int, terms: Terms) -> None:
        """Refuse a request that there is no room for.

        An empty queue takes anything, and so does a client's empty part of it: a request is never
        refused for ever for its own size.

        Raises:
            RateLimited: this client has too much waiting already.
            QueueFull: all together have.
        """
        self._check_client(tokens, sequences, terms.client)
        if not self.sequences:
            return
        over = max(self.tokens + tokens - self._limits.max_tokens, 0)
        over_sequences = max(self.sequences + sequences - self._limits.max_sequences, 0)
        if not over and not over_sequences:
            return
        waiting, limit = (
            f"{self.tokens:,} tokens",
            f"max_queue_tokens is {self._limits.max_tokens:,}",
        )
        if over_sequences:
            waiting = f"{self.sequences:,} sequences"
            limit = f"max_queue_sequences is {self._limits.max_sequences:,}"
        part = max(over / self.tokens, over_sequences / self.sequences)
        wait_s = self._wait_s(part)
        raise QueueFull(
            f"{waiting} are waiting, {limit}; try again in {wait_s:.1f} s", retry_after_s=wait_s
        )

    def add(self, ticket: Ticket[Any]) -> None:
        """Count a sequence that waits."""
        self._count(ticket, 1)

    def free(self, ticket: Ticket[Any]) -> None:
        """Count a sequence that waits no more."""
        self._count(ticket, -1)

    def _check_client(self, tokens: int, sequences: int, client: int | None) -> None:
        if client is None or not self._client_sequences[client]:
            return
        share = self._limits.max_client_share
        held, held_sequences = self._client_tokens[client], self._client_sequences[client]
        over = max(held + tokens - share * self._limits.max_tokens, 0)
        over_sequences = max(held_sequences + sequences - share * self._limits.max_sequences, 0)
        if not over and not over_sequences:
            return
        # Its part runs as one of all clients'; at the latest it is gone when everything is.
        part = max(over / held, over_sequences / held_sequences)
        before = part * held * len(self._client_tokens) / self.tokens
        wait_s = self._wait_s(before)
        raise RateLimited(
            f"{held:,} tokens in {held_sequences:,} sequences of this client are waiting, "
            f"max_client_share is {share:g} of the queue; try again in {wait_s:.1f} s",
            retry_after_s=wait_s,
        )

    def _wait_s(self, part: float) -> float:
        """Return how long this part of all that waits takes."""
        all_s = self._speeds.seconds(self.model_tokens)
        if all_s is None:
            return UNKNOWN_RETRY_S
        return min(max(min(part, 1.0) * all_s, MIN_RETRY_S), MAX_RETRY_S)

    def _count(self, ticket: Ticket[Any], sign: int) -> None:
        tokens = sign * ticket.num_tokens
        self.tokens += tokens
        self.sequences += sign
        self.priority_tokens[ticket.terms.priority] += tokens
        self.model_tokens[ticket.model] += tokens
        self._client_tokens[ticket.terms.client] += tokens
        self._client_sequences[ticket.terms.client] += sign
        if not self.model_tokens[ticket.model]:
            del self.model_tokens[ticket.model]
        if not self._client_sequences[ticket.terms.client]:
            del self._client_tokens[ticket.terms.client]
            del self._client_sequences[ticket.terms.client]
