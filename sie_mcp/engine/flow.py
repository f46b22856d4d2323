"""What one client waits for of one model: its short sequences, its long ones, its tokens so far.

A pure thing, as the scheduler is.
"""

from collections import deque
from typing import Generic

from sie_mcp.engine.tickets import OwnerT, Ticket

# A queue is swept when it holds more of what was cancelled than this, and than of what waits.
SWEEP_FROM = 32


class _Queue(Generic[OwnerT]):
    """Sequences in the order of arrival; what was cancelled is skipped."""

    def __init__(self) -> None:
        self.tickets: deque[Ticket[OwnerT]] = deque()
        self.served_tokens = 0

    def head(self) -> Ticket[OwnerT] | None:
        while self.tickets and self.tickets[0].is_done:
            self.tickets.popleft()
        return self.tickets[0] if self.tickets else None


class Flow(Generic[OwnerT]):
    """One client's sequences of one model and priority.

    Long sequences queue apart: the two queues get equal tokens, by the end of what each would run
    next, so that a short sequence never stands behind a row of long ones.

    Args:
        level_tokens: The tokens it counts as having had when it comes.
        long_from: A sequence of more tokens than this is long.
    """

    def __init__(self, level_tokens: int, long_from: int) -> None:
        self.served_tokens = level_tokens
        self.num_waiting = 0
        self._long_from = long_from
        self._short: _Queue[OwnerT] = _Queue()
        self._long: _Queue[OwnerT] = _Queue()

    def is_long(self, ticket: Ticket[OwnerT]) -> bool:
        """Whether a sequence queues with the long ones."""
        return ticket.num_tokens > self._long_from

    def add(self, ticket: Ticket[OwnerT]) -> None:
        """Queue one more."""
        own, other = self._short, self._long
        if self.is_long(ticket):
            own, other = other, own
        if own.head() is None and other.head() is not None:
            own.served_tokens = other.served_tokens
        own.tickets.append(ticket)
        self.num_waiting += 1

    def next(self, *, by_age: bool, with_long: bool) -> Ticket[OwnerT] | None:
        """Return what should run next; it stays where it is.

        Args:
            by_age: The oldest, else the queue that would have had the least tokens after it.
            with_long: Whether a long one may be it.
        """
        short = self._short.head()
        long = self._long.head() if with_long else None
        if short is None or long is None:
            return short or long
        if by_age:
            return min(short, long, key=lambda ticket: ticket.number)
        short_end = self._short.served_tokens + short.num_tokens
        return short if short_end <= self._long.served_tokens + long.num_tokens else long

    def take(self, ticket: Ticket[OwnerT]) -> None:
        """Remove the sequence that `next` returned, to run it."""
        self.lift(ticket)
        self._queue_of(ticket).served_tokens += ticket.num_tokens
        self.served_tokens += ticket.num_tokens
        self.num_waiting -= 1

    def lift(self, ticket: Ticket[OwnerT]) -> None:
        """Take a head out for a while, to see what is behind it."""
        lifted = self._queue_of(ticket).tickets.popleft()
        assert lifted is ticket

    def put_back(self, ticket: Ticket[OwnerT]) -> None:
        """Put a lifted head back; the last lifted first."""
        self._queue_of(ticket).tickets.appendleft(ticket)

    def drop(self, ticket: Ticket[OwnerT]) -> None:
        """Forget a sequence that is done without having run, wherever it stands."""
        self.num_waiting -= 1
        tickets = self._queue_of(ticket).tickets
        if len(tickets) > max(2 * self.num_waiting, SWEEP_FROM):
            waiting = [one for one in tickets if not one.is_done]
            tickets.clear()
            tickets.extend(waiting)

    def _queue_of(self, ticket: Ticket[OwnerT]) -> _Queue[OwnerT]:
        return self._long if self.is_long(ticket) else self._short
