"""What may wait: permits in tokens and sequences, for all and for one client, and when to return.

A pure thing, as the scheduler is. Counts are by model, client and priority of what waits now, so
that nothing grows with who has ever called.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Held:
    """How much, of all and of each client."""

    tokens: int = 0
    sequences: int = 0
    client_tokens: Counter[int | None] = field(default_factory=Counter)
    client_sequences: Counter[int | None] = field(default_factory=Counter)

    def count(self, tokens: int, sequences: int, client: int | None) -> None:
        """Add to it, or take from it what was added."""
        self.tokens += tokens
        self.sequences += sequences
        self.client_tokens[client] += tokens
        self.client_sequences[client] += sequences
        if not self.client_sequences[client]:
            del self.client_tokens[client]
            del self.client_sequences[client]

    def of(self, client: int | None) -> tuple[int, int]:
        """Return a client's tokens and sequences."""
        return self.client_tokens[client], self.client_sequences[client]


class Permits:
    """The account of what waits, and of what is being made ready to wait.

    Args:
        limits: What it may come to.
        speeds: How fast it goes.
    """

    def __init__(self, limits: QueueLimits, speeds: Speeds) -> None:
        self._limits = limits
        self._speeds = speeds
        self.model_tokens: Counter[str] = Counter()
        self.priority_tokens: Counter[Priority] = Counter()
        self._waiting = _Held()
        self._coming = _Held()
        # Tokens of those who were told when to return, and whose room is not free yet.
        self._promised_tokens = 0

    @property
    def tokens(self) -> int:
        """Tokens that wait."""
        return self._waiting.tokens

    @property
    def sequences(self) -> int:
        """Sequences that wait."""
        return self._waiting.sequences

    @contextmanager
    def expecting(self, tokens: int, sequences: int, terms: Terms) -> Iterator[None]:
        """Keep room for a request while it is made ready, so that others do not come in vain.

        Args:
            tokens: About as many as it will have.
            sequences: As many.
            terms: Whose it is.

        Raises:
            RateLimited, QueueFull: as `check`, what is expected for others counted too.
        """
        self.check(tokens, sequences, terms, with_expected=True)
        self._coming.count(tokens, sequences, terms.client)
        try:
            yield
        finally:
            self._coming.count(-tokens, -sequences, terms.client)

    def check(
        self, tokens: int, sequences: int, terms: Terms, *, with_expected: bool = False
    ) -> None:
        """Refuse a request that there is no room for.

        An empty queue takes anything, and so does a client's empty part of it: a request is never
        refused for ever for its own size.

        Args:
            tokens: Of the request.
            sequences: Of the request.
            terms: Whose it is.
            with_expected: Count what is being made ready too. Not for what was itself expected:
                the work is done, and those behind it are others.

        Raises:
            RateLimited: this client has too much waiting already.
            QueueFull: all together have.
        """
        self._check_client(tokens, sequences, terms.client, with_expected=with_expected)
        held = self._waiting.tokens + with_expected * self._coming.tokens
        held_sequences = self._waiting.sequences + with_expected * self._coming.sequences
        if not held_sequences:
            return
        over = max(held + tokens - self._limits.max_tokens, 0)
        over_sequences = max(held_sequences + sequences - self._limits.max_sequences, 0)
        if not over and not over_sequences:
            return
        waiting, limit = f"{held:,} tokens", f"max_queue_tokens is {self._limits.max_tokens:,}"
        if over_sequences:
            waiting = f"{held_sequences:,} sequences"
            limit = f"max_queue_sequences is {self._limits.max_sequences:,}"
        part = min(max(over / held, over_sequences / held_sequences), 1.0)
        # Those refused before come back before.
        wait_s = self._wait_s(part + self._promised_tokens / held)
        self._promised_tokens = min(self._promised_tokens + tokens, self._limits.max_tokens)
        raise QueueFull(
            f"{waiting} are waiting, {limit}; try again in {wait_s:.1f} s", retry_after_s=wait_s
        )

    def add(self, tickets: Sequence[Ticket[Any]]) -> None:
        """Count sequences that wait."""
        self._count(tickets, 1)

    def free(self, tickets: Sequence[Ticket[Any]]) -> None:
        """Count sequences that wait no more."""
        if not tickets:
            return
        self._count(tickets, -1)
        left = self._promised_tokens - sum([one.num_tokens for one in tickets])
        self._promised_tokens = max(left, 0) if self._waiting.sequences else 0

    def _check_client(
        self, tokens: int, sequences: int, client: int | None, *, with_expected: bool
    ) -> None:
        if client is None:
            return
        held, held_sequences = self._waiting.of(client)
        if with_expected:
            coming, coming_sequences = self._coming.of(client)
            held, held_sequences = held + coming, held_sequences + coming_sequences
        if not held_sequences:
            return
        share = self._limits.max_client_share
        over = max(held + tokens - share * self._limits.max_tokens, 0)
        over_sequences = max(held_sequences + sequences - share * self._limits.max_sequences, 0)
        if not over and not over_sequences:
            return
        # Its part runs as one of all clients'; at the latest it is gone when everything is.
        part = max(over / held, over_sequences / held_sequences)
        num_clients = max(len(self._waiting.client_tokens), 1)
        before = part * held * num_clients / max(self.tokens, held)
        wait_s = self._wait_s(min(before, 1.0))
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
        return min(max(part * all_s, MIN_RETRY_S), MAX_RETRY_S)

    def _count(self, tickets: Sequence[Ticket[Any]], sign: int) -> None:
        """Count by model and terms: those of a request have both in common."""
        groups: dict[tuple[str, int], list[Ticket[Any]]] = {}
        for one in tickets:
            groups.setdefault((one.model, id(one.terms)), []).append(one)
        for (model, _), own in groups.items():
            terms = own[0].terms
            tokens = sign * sum([one.num_tokens for one in own])
            sequences = sign * sum([one.num_sequences for one in own])
            self._waiting.count(tokens, sequences, terms.client)
            self.priority_tokens[terms.priority] += tokens
            self.model_tokens[model] += tokens
            if not self.model_tokens[model]:
                del self.model_tokens[model]
