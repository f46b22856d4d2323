"""Which sequences run next: the queue of the device, in real tokens.

A pure thing: time comes in as an argument, no thread, no clock, no torch. The oldest sequence of
the chosen model always runs next; models share the device by tokens; a sequence older than the
age cap decides the model. Bounded: what does not fit is refused at once.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sie_mcp.errors import QueueFull

OwnerT = TypeVar("OwnerT")

# A model keeps the device for this many full batches while others wait, so that a batch of each in
# turn does not leave caches cold; the age cap bounds what others wait.
DRAIN_BATCHES = 4
# How far behind the oldest a sequence may stand and still fill the batch.
LOOK_AHEAD = 1024


@dataclass(slots=True, eq=False)
class Ticket(Generic[OwnerT]):
    """One sequence in the queue. `owner` is the caller's own: the scheduler never looks."""

    model: str
    num_tokens: int
    submitted_s: float
    owner: OwnerT
    is_done: bool = False


@dataclass(slots=True)
class _Line(Generic[OwnerT]):
    """The sequences of one model, oldest first, and the tokens it has had."""

    tickets: deque[Ticket[OwnerT]] = field(default_factory=deque)
    served_tokens: float = 0.0

    def oldest(self) -> Ticket[OwnerT] | None:
        while self.tickets and self.tickets[0].is_done:
            self.tickets.popleft()
        return self.tickets[0] if self.tickets else None


class Scheduler(Generic[OwnerT]):
    """Queue of sequences.

    Args:
        max_batch_tokens: Real tokens of a batch; a longer sequence runs alone.
        max_batch_sequences: Sequences of a batch.
        max_queue_tokens: Tokens that may wait.
        max_age_s: A sequence older than this runs before fairness is asked.
    """

    def __init__(
        self,
        *,
        max_batch_tokens: int,
        max_batch_sequences: int,
        max_queue_tokens: int,
        max_age_s: float,
    ) -> None:
        self._max_batch_tokens = max_batch_tokens
        self._max_batch_sequences = max_batch_sequences
        self._max_queue_tokens = max_queue_tokens
        self._max_age_s = max_age_s
        self._lines: dict[str, _Line[OwnerT]] = {}
        self._current: str | None = None
        self._current_tokens = 0
        self.queue_tokens = 0

    def submit(
        self,
        model: str,
        num_tokens: list[int],
        owners: list[OwnerT],
        now_s: float,
        *,
        tokens_per_s: float = 0.0,
    ) -> list[Ticket[OwnerT]]:
        """Queue the sequences of one request, all or none.

        Raises:
            QueueFull: too many tokens wait; says when there will be room at this speed.
        """
        total = sum(num_tokens)
        # An empty queue takes anything: a request is never refused for its own size.
        if self.queue_tokens and self.queue_tokens + total > self._max_queue_tokens:
            over = self.queue_tokens + total - self._max_queue_tokens
            wait_s = over / tokens_per_s if tokens_per_s else 1.0
            raise QueueFull(
                f"{self.queue_tokens:,} tokens are waiting, max_queue_tokens is "
                f"{self._max_queue_tokens:,}; try again in {wait_s:.1f} s",
                retry_after_s=min(max(wait_s, 0.1), 60.0),
            )
        tickets = [
            Ticket(model, tokens, now_s, owner)
            for tokens, owner in zip(num_tokens, owners, strict=True)
        ]
        line = self._lines.get(model)
        if line is None or line.oldest() is None:
            self._lines[model] = line = _Line(served_tokens=self._least_served())
        line.tickets.extend(tickets)
        self.queue_tokens += total
        return tickets

    def cancel(self, tickets: list[Ticket[OwnerT]]) -> None:
        """Free the place of sequences that nobody waits for any more."""
        for ticket in tickets:
            if not ticket.is_done:
                ticket.is_done = True
                self.queue_tokens -= ticket.num_tokens

    def next_batch(
        self, now_s: float, *, max_tokens: Mapping[str, int] | None = None
    ) -> list[Ticket[OwnerT]]:
        """Take the next batch, all of one model; empty when nothing waits.

        Args:
            now_s: The time.
            max_tokens: Learned budgets below the configured one, by model.
        """
        model = self._choose(now_s)
        if model is None:
            return []
        learned = (max_tokens or {}).get(model, self._max_batch_tokens)
        budget = min(learned, self._max_batch_tokens)
        batch = self._fill(self._lines[model], budget)
        tokens = sum(ticket.num_tokens for ticket in batch)
        if model != self._current:
            self._current, self._current_tokens = model, 0
        self._current_tokens += tokens
        self._lines[model].served_tokens += tokens
        self.queue_tokens -= tokens
        return batch

    def _choose(self, now_s: float) -> str | None:
        """Pick the model: too old first, then who is being drained, then the least served."""
        oldest = {}
        for model in list(self._lines):
            ticket = self._lines[model].oldest()
            if ticket is None:
                del self._lines[model]
            else:
                oldest[model] = ticket
        if not oldest:
            return None
        first = min(oldest, key=lambda model: oldest[model].submitted_s)
        if now_s - oldest[first].submitted_s > self._max_age_s:
            return first
        drain_tokens = DRAIN_BATCHES * self._max_batch_tokens
        if self._current in oldest and self._current_tokens < drain_tokens:
            return self._current
        others = [model for model in oldest if model != self._current] or list(oldest)
        return min(others, key=lambda model: self._lines[model].served_tokens)

    def _fill(self, line: _Line[OwnerT], budget: int) -> list[Ticket[OwnerT]]:
        """Take the oldest, then whatever behind it still fits, looking a bounded way ahead."""
        batch: list[Ticket[OwnerT]] = []
        passed: list[Ticket[OwnerT]] = []
        left = budget
        while line.tickets and len(batch) < self._max_batch_sequences and left > 0:
            if len(passed) >= LOOK_AHEAD:
                break
            ticket = line.tickets.popleft()
            if ticket.is_done:
                continue
            if batch and ticket.num_tokens > left:
                passed.append(ticket)
                continue
            ticket.is_done = True
            batch.append(ticket)
            left -= ticket.num_tokens
        line.tickets.extendleft(reversed(passed))
        return batch

    def _least_served(self) -> float:
        """A newcomer starts level with the least served: it cannot claim the time it was away."""
        return min((line.served_tokens for line in self._lines.values()), default=0.0)
