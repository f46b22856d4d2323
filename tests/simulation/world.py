"""A worker without clock, threads or models: the real scheduler and ledger under one seed.

Arrivals in bursts, sizes with a heavy tail, priorities, clients, deadlines, cancellations, loads
that fail and batches that do not fit. A watch looks at what must hold after every step.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable

from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.tickets import Terms, Ticket
from sie_mcp.errors import ModelTooLarge, QueueFull, RateLimited
from tests.simulation.watch import (
    MAX_AGE_S,
    MAX_BATCH_SEQUENCES,
    MAX_BATCH_TOKENS,
    MAX_QUEUE_SEQUENCES,
    MAX_QUEUE_TOKENS,
    Asked,
    Watch,
)

TOKENS_PER_S = 200.0
LAUNCH_S = 0.02
BUDGET_BYTES, RESERVED_BYTES = 100, 10
NUM_REQUESTS = 45
LONGEST_S = 60.0
SMALLEST_BUDGET = 8


class World:
    """One seed's worker and its callers."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.watch = Watch(self)
        self.counts: Counter[str] = Counter()
        self.scheduler: Scheduler[tuple[Asked, int]] = Scheduler(
            max_batch_tokens=MAX_BATCH_TOKENS,
            max_batch_sequences=MAX_BATCH_SEQUENCES,
            max_queue_tokens=MAX_QUEUE_TOKENS,
            max_queue_sequences=MAX_QUEUE_SEQUENCES,
            max_age_s=MAX_AGE_S,
            weights={"a": self.rng.choice([0.25, 1.0, 4.0])},
        )
        self.ledger = Ledger(BUDGET_BYTES, RESERVED_BYTES)
        self.sizes = {name: self.rng.randint(15, 60) for name in "abcde"} | {"huge": 95}
        # A batch of more tokens than this does not fit on the device.
        self.fits = {name: self.rng.choice([24, 64, 10_000, 10_000]) for name in self.sizes}
        self.learned: dict[str, int] = {}
        self.loading: dict[str, list[Asked]] = {}
        self.waiting: dict[int, Ticket] = {}
        self.num_batches = 0
        self.running: list[Ticket] = []
        self.asked: list[Asked] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def play(self) -> "World":
        """Run until nothing is left to happen."""
        arrival_s = 0.0
        for number in range(NUM_REQUESTS):
            arrival_s += self.rng.paretovariate(1.2) * 0.05
            self._at(arrival_s, lambda number=number: self._arrive(number))
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self._start_batch()
            self.watch.look()
        self.watch.look_at_the_end()
        return self

    # Requests.

    def _arrive(self, number: int) -> None:
        rng = self.rng
        count = min(int(rng.paretovariate(1.0)), 60)
        sizes = [min(int(rng.paretovariate(0.9) * 4), 300) for _ in range(count)]
        timeout_s = min(rng.paretovariate(0.6), LONGEST_S) if rng.random() < 0.5 else LONGEST_S
        terms = Terms(
            priority="bulk" if count > 8 else rng.choice(["interactive", "interactive", "bulk"]),
            client=rng.choice([None, 1, 1, 2, 3]),
            deadline_s=self.now + timeout_s,
        )
        model = rng.choices([*self.sizes], weights=[16, 8, 4, 2, 2, 1])[0]
        asked = Asked(number, model, sizes, terms, results=[None] * count)
        self.asked.append(asked)
        # The caller's own clock may be late: then the scheduler meets what has expired first.
        late_s = rng.choice([0.0, 0.0, 5.0])
        self._at(terms.deadline_s + late_s, lambda: self._leave(asked, "deadline"))
        if rng.random() < 0.15:
            self._at(self.now + rng.expovariate(0.5), lambda: self._leave(asked, "cancelled"))
        self._acquire(asked)

    def _acquire(self, asked: Asked) -> None:
        resident = self.ledger.get(asked.model)
        is_up = resident is not None and resident.loaded_at_s is not None
        if is_up and not resident.is_closing:
            self.ledger.use(asked.model, self.now)
            asked.holds = True
            self._submit(asked)
            return
        is_first = asked.model not in self.loading
        self.loading.setdefault(asked.model, []).append(asked)
        if is_first:
            self._load(asked.model)

    def _submit(self, asked: Asked) -> None:
        before = (self.scheduler.queue_tokens, self.scheduler.queue_sequences)
        owners = [(asked, place) for place in range(len(asked.sizes))]
        try:
            asked.tickets = self.scheduler.submit(
                asked.model, asked.sizes, owners, self.now, asked.terms
            )
        except (QueueFull, RateLimited) as error:
            self.watch.look_at_refusal(error, before, asked)
            self._answer(asked, error.code)
            return
        self.waiting |= {ticket.number: ticket for ticket in asked.tickets}

    def _leave(self, asked: Asked, why: str) -> None:
        if asked.answers:
            return
        self._drop(asked)
        self._answer(asked, why)

    def _drop(self, asked: Asked) -> None:
        num_waiting = sum(ticket.number in self.waiting for ticket in asked.tickets)
        tokens = self.scheduler.queue_tokens
        num_freed = self.scheduler.cancel(asked.tickets)
        freed = sum(
            self.waiting.pop(ticket.number).num_tokens
            for ticket in asked.tickets
            if ticket.number in self.waiting
        )
        is_free = num_freed == num_waiting and self.scheduler.queue_tokens == tokens - freed
        name = "a cancelled sequence frees its place at once"
        self.watch.expect(is_free, name, f"{asked.number}")

    def _answer(self, asked: Asked, what: str) -> None:
        asked.answers.append(what)
        self.counts[what] += 1
        self._release(asked)

    def _release(self, asked: Asked) -> None:
        """A model is held for as long as anything of the request runs."""
        if asked.holds and asked.answers and not asked.num_running:
            asked.holds = False
            self.ledger.release(asked.model, self.now)

    # Models.

    def _load(self, model: str) -> None:
        resident = self.ledger.get(model)
        if resident is not None and not resident.is_closing:
            self._loaded(model)
            return
        try:
            # One that is leaving must have left before it is loaded again.
            room = self.ledger.find_room(self.sizes[model], self.now)
        except ModelTooLarge:
            self._load_failed(model, "too large")
            return
        if resident is not None or room.wait_s is not None:
            wait_s = min(room.wait_s or 0.5, 0.5)
            if resident is not None and not resident.users:
                self._evict(model)
            self._at(self.now + wait_s, lambda: self._load(model))
            return
        for victim in room.victims:
            self._evict(victim)
        self.ledger.admit(model, self.sizes[model], self.now)
        self.ledger.reopen()
        load_s = self.rng.uniform(0.05, 1.0)
        self._at(self.now + load_s, lambda: self._load_done(model, load_s))

    def _load_done(self, model: str, load_s: float) -> None:
        if self.rng.random() < 0.15:
            self.ledger.remove(model)
            self._load_failed(model, "load failed")
            return
        self.ledger.settle(model, self.sizes[model], load_s, self.now)
        self.counts["loads"] += 1
        self._loaded(model)

    def _loaded(self, model: str) -> None:
        for asked in self.loading.pop(model):
            if not asked.answers:
                self._acquire(asked)

    def _load_failed(self, model: str, why: str) -> None:
        for asked in self.loading.pop(model):
            if not asked.answers:
                self._answer(asked, why)

    def _evict(self, model: str) -> None:
        resident = self.ledger.get(model)
        runs = {ticket.model for ticket in self.running}
        is_free = resident.users == 0 and model not in runs
        self.watch.expect(is_free, "a model in use is never evicted", f"{model}")
        waits = self.scheduler.waiting_tokens(model)
        self.watch.expect(not waits, "a model with work in the queue is never evicted", f"{model}")
        self.ledger.remove(model)
        self.counts["evictions"] += 1

    # The device.

    def _start_batch(self) -> None:
        if self.running:
            return
        self.watch.mark_too_old()
        batch = self.scheduler.next_batch(self.now, learned_tokens=self.learned)
        expired = self.scheduler.take_expired()
        for ticket in expired:
            self.waiting.pop(ticket.number, None)
        for ticket in expired:
            self._expire(ticket)
        if not batch:
            idle = "the device never idles while something waits"
            self.watch.expect(not self.waiting, idle, f"{len(self.waiting)} wait")
            return
        self.watch.look_at_batch(batch)
        self.num_batches += 1
        self.running = batch
        for ticket in batch:
            del self.waiting[ticket.number]
            ticket.owner[0].num_running += 1
        tokens = sum(ticket.num_tokens for ticket in batch)
        seconds = LAUNCH_S + tokens / TOKENS_PER_S
        self.scheduler.note_speed(batch[0].model, tokens, seconds)
        self._at(self.now + seconds, lambda: self._end_batch(tokens))

    def _expire(self, ticket: Ticket) -> None:
        asked = ticket.owner[0]
        name = "only what has expired is dropped, and then before it runs"
        self.watch.expect(asked.terms.deadline_s <= self.now, name, f"{asked.number}")
        self.counts["expired"] += 1
        if not asked.answers:
            self._leave(asked, "deadline")

    def _end_batch(self, tokens: int) -> None:
        batch, self.running = self.running, []
        model = batch[0].model
        if tokens > self.fits[model] and len(batch) > 1:
            # As the device does: what did not fit runs in halves, and the next batches are smaller.
            self.learned[model] = max(tokens // 2, SMALLEST_BUDGET)
            self.counts["out of memory"] += 1
        for ticket in batch:
            asked, place = ticket.owner
            asked.num_running -= 1
            name = "every sequence runs once, and results come in order"
            is_right = asked.results[place] is None and asked.sizes[place] == ticket.num_tokens
            self.watch.expect(is_right, name, f"{asked.number}[{place}]")
            asked.results[place] = ticket.num_tokens
            if asked.results == asked.sizes and not asked.answers:
                self._answer(asked, "ok")
            self._release(asked)

    def _at(self, when_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), event))
