"""How a batch fills: real tokens against a budget, looking a bounded way past what does not fit.

A pure thing, as the scheduler is. A long sequence joins only a batch that a long one began: short
ones never wait for a long one that came into their batch.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

from sie_mcp.engine.flow import Flow
from sie_mcp.engine.line import Line
from sie_mcp.engine.tickets import OwnerT, Ticket

# How many sequences that do not fit are passed over before a batch counts as full.
LOOK_AHEAD = 256
# Nor is one looked for when less than this part of the batch is left.
WORTH_LOOKING = 1 / 32


@dataclass(slots=True)
class Batch(Generic[OwnerT]):
    """A batch while it fills.

    Attributes:
        max_tokens: Of all together; a longer sequence runs alone.
        expired: What nobody waits for any more; met on the way and taken out.
    """

    max_tokens: int
    max_sequences: int
    now_s: float
    tickets: list[Ticket[OwnerT]] = field(default_factory=list)
    expired: list[Ticket[OwnerT]] = field(default_factory=list)
    num_tokens: int = 0
    num_sequences: int = 0
    takes_long: bool = True
    passes_left: int = LOOK_AHEAD

    def has_place(self) -> bool:
        """Whether any sequence may still join."""
        is_full = self.num_tokens >= self.max_tokens or self.num_sequences >= self.max_sequences
        return not is_full and self.passes_left > 0

    def fits(self, ticket: Ticket[OwnerT]) -> bool:
        """Whether this one may join; the first always may."""
        return not self.tickets or (
            self.num_tokens + ticket.num_tokens <= self.max_tokens
            and self.num_sequences + ticket.num_sequences <= self.max_sequences
        )

    def add(self, ticket: Ticket[OwnerT]) -> None:
        """Let one join."""
        self.tickets.append(ticket)
        self.num_tokens += ticket.num_tokens
        self.num_sequences += ticket.num_sequences

    def passed(self) -> None:
        """Count one that did not fit."""
        self.passes_left -= 1
        if self.max_tokens - self.num_tokens < WORTH_LOOKING * self.max_tokens:
            self.passes_left = 0


def fill(
    batch: Batch[OwnerT], lines: Sequence[Line[OwnerT]], model: str, *, by_age: bool = False
) -> None:
    """Take sequences of one model out of lines: the oldest first, or in equal parts by client."""
    filling = _Filling(batch, lines, model, by_age)
    if not batch.tickets:
        filling.begin()
    if batch.tickets and batch.has_place():
        filling.go_on()


class _Filling(Generic[OwnerT]):
    """One run over the flows of a model; a flow stands in the heap once, by what it runs next.

    In equal parts nobody gets further than a batch past who has work that this batch cannot take:
    between clients that both have work, tokens never differ by more than a batch and a sequence.
    """

    def __init__(
        self, batch: Batch[OwnerT], lines: Sequence[Line[OwnerT]], model: str, by_age: bool
    ) -> None:
        self._batch = batch
        self._by_age = by_age
        self._flows = [(line, flow) for line in lines for flow in line.flows(model)]
        self._heap: list[tuple[int, int, int]] = []
        self._last_end = math.inf
        self._lifted: list[tuple[Flow[OwnerT], Ticket[OwnerT]]] = []

    def begin(self) -> None:
        """Take the first sequence: it decides whether long ones may follow."""
        self._rebuild()
        while self._heap and not self._batch.tickets:
            place = heapq.heappop(self._heap)[2]
            flow = self._flows[place][1]
            ticket = self._next(flow)
            assert ticket is not None, "a flow without work is in no line"
            self._try(place, ticket)
            if self._batch.tickets:
                self._batch.takes_long = flow.is_long(ticket)

    def go_on(self) -> None:
        """Take what still fits. What is passed over stands where it stood."""
        self._rebuild()
        while self._heap and self._batch.has_place():
            place = heapq.heappop(self._heap)[2]
            flow = self._flows[place][1]
            ticket = self._next(flow)
            assert ticket is not None
            if self._end(flow, ticket) > self._last_end:
                break
            self._try(place, ticket)
        for flow, ticket in reversed(self._lifted):
            flow.put_back(ticket)

    def _rebuild(self) -> None:
        self._heap = []
        for place in range(len(self._flows)):
            self._push(place)

    def _push(self, place: int) -> None:
        flow = self._flows[place][1]
        ticket = self._next(flow)
        if ticket is not None:
            heapq.heappush(self._heap, (self._end(flow, ticket), ticket.number, place))
        elif (left_out := flow.next(by_age=self._by_age, with_long=True)) is not None:
            self._pass_over(flow, left_out)

    def _end(self, flow: Flow[OwnerT], ticket: Ticket[OwnerT]) -> int:
        """Return what flows are ordered by: age, or the tokens that each would have had."""
        return ticket.number if self._by_age else flow.served_tokens + ticket.num_tokens

    def _pass_over(self, flow: Flow[OwnerT], ticket: Ticket[OwnerT]) -> None:
        if not self._by_age:
            end = self._end(flow, ticket) + self._batch.max_tokens
            self._last_end = min(self._last_end, end)

    def _next(self, flow: Flow[OwnerT]) -> Ticket[OwnerT] | None:
        return flow.next(by_age=self._by_age, with_long=self._batch.takes_long)

    def _try(self, place: int, ticket: Ticket[OwnerT]) -> None:
        """Take a head, drop it or pass it over, and put its flow back in the heap."""
        line, flow = self._flows[place]
        if ticket.terms.deadline_s <= self._batch.now_s:
            ticket.is_done = True
            line.drop(ticket)
            self._batch.expired.append(ticket)
        elif self._batch.fits(ticket):
            line.take(ticket)
            ticket.is_done = True
            self._batch.add(ticket)
        else:
            self._pass_over(flow, ticket)
            flow.lift(ticket)
            self._lifted.append((flow, ticket))
            self._batch.passed()
        self._push(place)
