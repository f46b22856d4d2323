"""Which sequences run next: the queue of the device, in real tokens.

A few short sequences of one request may have one place in it: they run together.

A pure thing: time comes in as an argument, no thread, no clock, no torch. Interactive work first,
with a share for bulk; models in turn by weight; clients of a model side by side; and one batch in
a few for what waits too long already, whatever it is. Bounded: what does not fit is refused.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic

from sie_mcp.engine.admission import Permits, QueueLimits
from sie_mcp.engine.filling import Batch, fill
from sie_mcp.engine.line import Line
from sie_mcp.engine.speeds import Speeds
from sie_mcp.engine.tickets import PRIORITIES, OwnerT, Priority, Terms, Ticket

# A model keeps the device for this many full batches while others wait, so that a batch of each in
# turn does not leave caches cold.
DRAIN_BATCHES = 4
# While too old a sequence waits, one batch in this many begins with the oldest of all. Were it
# every one, a queue longer than the age cap would know neither clients nor priorities.
AGED_EVERY = 4
# Bulk has at least this part of the tokens while interactive work waits too.
BULK_SHARE = 1 / 8
# How much of a batch that interactive work began may be bulk: it costs those who wait a quarter of
# a batch at most, and the device is not left half empty.
TOP_UP_SHARE = 1 / 4
# A sequence over this part of a batch is long; it stands apart from short ones.
LONG_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class _Turn:
    """What the next batch is made of."""

    model: str
    priorities: Sequence[Priority]
    by_age: bool = False


class Scheduler(Generic[OwnerT]):
    """Queue of sequences.

    No sequence starves: one that is older than `max_age_s`, with k older ones waiting, starts
    within `AGED_EVERY * (k + 1)` batches.

    Args:
        max_batch_tokens: Real tokens of a batch; a longer sequence runs alone.
        max_batch_sequences: Sequences of a batch.
        max_queue_tokens: Tokens that may wait.
        max_age_s: A sequence older than this is too old.
        max_queue_sequences: Sequences that may wait.
        max_client_share: The part of the queue that one client may hold.
        weights: Model -> how many turns it gets where another gets one; 1 where it says nothing.
    """

    def __init__(
        self,
        *,
        max_batch_tokens: int,
        max_batch_sequences: int,
        max_queue_tokens: int,
        max_age_s: float,
        max_queue_sequences: int = 65_536,
        max_client_share: float = 0.5,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.max_batch_tokens = max_batch_tokens
        self.max_batch_sequences = max_batch_sequences
        self._max_age_s = max_age_s
        turn_tokens = DRAIN_BATCHES * max_batch_tokens
        long_from = int(LONG_SHARE * max_batch_tokens)
        self._lines: dict[Priority, Line[OwnerT]] = {
            priority: Line(turn_tokens, weights or {}, long_from) for priority in PRIORITIES
        }
        self._speeds = Speeds()
        limits = QueueLimits(max_queue_tokens, max_queue_sequences, max_client_share)
        self._permits = Permits(limits, self._speeds)
        self._num_submitted = 0
        self._since_aged = AGED_EVERY
        self._owed_tokens = 0.0
        self._expired: list[Ticket[OwnerT]] = []

    @property
    def queue_tokens(self) -> int:
        """Tokens that wait."""
        return self._permits.tokens

    @property
    def queue_sequences(self) -> int:
        """Sequences that wait."""
        return self._permits.sequences

    @property
    def wait_s(self) -> float:
        """How long all that waits will take, in seconds; 0 before anything has run."""
        return self._speeds.seconds(self._permits.model_tokens) or 0.0

    def waiting_tokens(self, model: str) -> int:
        """Return how many tokens wait for a model: it should not leave the device before them."""
        return self._permits.model_tokens[model]

    def priority_tokens(self, priority: Priority) -> int:
        """Return how many tokens of a priority wait."""
        return self._permits.priority_tokens[priority]

    def note_speed(self, model: str, tokens: int, seconds: float) -> None:
        """Hear how long a batch took: refusals say when to come back by it."""
        self._speeds.note(model, tokens, seconds)

    def check_room(self, num_tokens: int, num_sequences: int, terms: Terms) -> None:
        """Refuse a request that there is no room for beside what waits and what is expected.

        Raises:
            RateLimited, QueueFull: as `submit`.
        """
        tokens = max(num_tokens, num_sequences)
        self._permits.check(tokens, num_sequences, terms, with_expected=True)

    def expecting(
        self, num_tokens: int, num_sequences: int, terms: Terms
    ) -> AbstractContextManager[None]:
        """Keep room for a request that is being made ready, about so large.

        Raises:
            RateLimited, QueueFull: as `submit`, on entering.
        """
        return self._permits.expecting(max(num_tokens, num_sequences), num_sequences, terms)

    def submit(
        self,
        model: str,
        num_tokens: list[int],
        owners: list[OwnerT],
        now_s: float,
        terms: Terms | None = None,
        num_sequences: Sequence[int] | None = None,
    ) -> list[Ticket[OwnerT]]:
        """Queue the sequences of one request, all or none.

        Args:
            model: Which runs them.
            num_tokens: Of each place in the queue.
            owners: Of each place.
            now_s: The time.
            terms: Of the request.
            num_sequences: Of each place; None: one.

        Raises:
            RateLimited: this client has too much waiting; says when that will have run.
            QueueFull: too much waits; says when there will be room.
        """
        terms = terms or Terms()
        counts = num_sequences or [1] * len(num_tokens)
        self._permits.check(sum(num_tokens), sum(counts), terms)
        first = self._num_submitted
        self._num_submitted += len(num_tokens)
        tickets = [
            Ticket(model, tokens, now_s, owner, terms, number, count)
            for number, (tokens, owner, count) in enumerate(
                zip(num_tokens, owners, counts, strict=True), start=first
            )
        ]
        line = self._lines[terms.priority]
        for ticket in tickets:
            line.add(ticket)
        self._permits.add(tickets)
        return tickets

    def cancel(self, tickets: list[Ticket[OwnerT]]) -> int:
        """Free the places of sequences that nobody waits for any more; return how many waited."""
        waiting = [ticket for ticket in tickets if not ticket.is_done]
        for ticket in waiting:
            ticket.is_done = True
            self._lines[ticket.terms.priority].drop(ticket)
        self._permits.free(waiting)
        return sum(ticket.num_sequences for ticket in waiting)

    def next_batch(
        self,
        now_s: float,
        *,
        learned_tokens: Mapping[str, int] | None = None,
        measured_tokens: Mapping[str, int] | None = None,
    ) -> list[Ticket[OwnerT]]:
        """Take the next batch, all of one model; empty when nothing waits.

        Sequences whose deadline has passed are left out; see `take_expired`.

        Args:
            now_s: The time.
            learned_tokens: Model -> a learned budget, where it is below the usual one.
            measured_tokens: Model -> the usual budget where it is not `max_batch_tokens`.
        """
        while (turn := self._choose(now_s)) is not None:
            usual = (measured_tokens or {}).get(turn.model, self.max_batch_tokens)
            budget = min((learned_tokens or {}).get(turn.model, usual), usual)
            batch: Batch[OwnerT] = Batch(budget, self.max_batch_sequences, now_s)
            self._fill(batch, turn)
            self._permits.free([*batch.tickets, *batch.expired])
            self._expired += batch.expired
            if batch.tickets:
                self._settle(turn, batch)
                return batch.tickets
        return []

    def take_expired(self) -> list[Ticket[OwnerT]]:
        """Return the sequences that `next_batch` left out, once."""
        expired, self._expired = self._expired, []
        return expired

    def _choose(self, now_s: float) -> _Turn | None:
        """Pick priority and model: too old now and then, bulk when it is owed, else as it comes."""
        heads = [head for line in self._lines.values() if (head := line.oldest()) is not None]
        oldest = min(heads, key=lambda ticket: ticket.number, default=None)
        if oldest is None:
            return None
        is_too_old = now_s - oldest.submitted_s > self._max_age_s
        if is_too_old and self._since_aged >= AGED_EVERY - 1:
            return _Turn(oldest.model, PRIORITIES, by_age=True)
        interactive, bulk = (self._lines[priority].next_model() for priority in PRIORITIES)
        is_owed = bulk is not None and self._owed_tokens >= self.max_batch_tokens
        if interactive is not None and not is_owed:
            return _Turn(interactive, PRIORITIES)
        assert bulk is not None
        return _Turn(bulk, ("bulk", "interactive"))

    def _fill(self, batch: Batch[OwnerT], turn: _Turn) -> None:
        first, second = (self._lines[priority] for priority in turn.priorities)
        if turn.by_age:
            fill(batch, (first, second), turn.model, by_age=True)
            return
        fill(batch, (first,), turn.model)
        if not batch.tickets:
            return
        if turn.priorities[0] == "interactive":
            top_up = int(TOP_UP_SHARE * batch.max_tokens)
            batch.max_tokens = min(batch.max_tokens, batch.num_tokens + top_up)
        fill(batch, (second,), turn.model)

    def _settle(self, turn: _Turn, batch: Batch[OwnerT]) -> None:
        """Remember what decides the turns that follow."""
        self._since_aged = 0 if turn.by_age else self._since_aged + 1
        if not self._permits.priority_tokens["bulk"]:
            self._owed_tokens = 0.0
        elif turn.priorities[0] == "interactive" and not turn.by_age:
            own = (one.num_tokens for one in batch.tickets if one.terms.priority == "interactive")
            self._owed_tokens += sum(own) * BULK_SHARE / (1 - BULK_SHARE)
        elif not turn.by_age:
            self._owed_tokens = max(self._owed_tokens - batch.num_tokens, 0.0)
