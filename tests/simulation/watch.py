"""What must hold in a simulated worker, looked at after every step; what broke is kept by name."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sie_mcp.engine.scheduler import AGED_EVERY, LONG_SHARE
from sie_mcp.engine.tickets import Terms, Ticket
from sie_mcp.errors import QueueFull, RateLimited

if TYPE_CHECKING:
    from tests.simulation.world import World

MAX_BATCH_TOKENS = 128
MAX_BATCH_SEQUENCES = 8
MAX_QUEUE_TOKENS = 1_500
MAX_QUEUE_SEQUENCES = 120
MAX_AGE_S = 4.0


@dataclass(eq=False)
class Asked:
    """One request on its way."""

    number: int
    model: str
    sizes: list[int]
    terms: Terms
    tickets: list[Ticket] = field(default_factory=list)
    results: list[int | None] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    num_running: int = 0
    holds: bool = False


class Watch:
    """Looks at one world.

    Attributes:
        broken: Property -> what broke it.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.broken: dict[str, list[str]] = defaultdict(list)
        # Number of what is too old -> the batch before which it must start.
        self.bounds: dict[int, int] = {}

    def expect(self, holds: bool, name: str, what: str) -> None:
        """Remember what broke a property."""
        if not holds:
            self.broken[name].append(f"at {self.world.now:.3f} s: {what}")

    def mark_too_old(self) -> None:
        """Note for what is too old now in which batch it must start."""
        for place, (number, ticket) in enumerate(self.world.waiting.items()):
            if self.world.now - ticket.submitted_s <= MAX_AGE_S:
                break
            if number not in self.bounds:
                self.bounds[number] = self.world.num_batches + AGED_EVERY * (place + 1)

    def look_at_batch(self, batch: list[Ticket]) -> None:
        models = {ticket.model for ticket in batch}
        tokens = sum(ticket.num_tokens for ticket in batch)
        limit = min(self.world.learned.get(batch[0].model, MAX_BATCH_TOKENS), MAX_BATCH_TOKENS)
        self.expect(len(models) == 1, "a batch is of one model", f"{models}")
        fits = len(batch) <= MAX_BATCH_SEQUENCES and (tokens <= limit or len(batch) == 1)
        self.expect(fits, "a batch keeps to its budget, also a learned one", f"{tokens} > {limit}")
        long_from = LONG_SHARE * MAX_BATCH_TOKENS
        is_long = [ticket.num_tokens > long_from for ticket in batch]
        long_rule = "a long sequence joins only a batch that a long one began"
        self.expect(is_long[0] or not any(is_long), long_rule, f"{is_long}")
        for ticket in batch:
            number = ticket.number
            waits = number in self.world.waiting and ticket.terms.deadline_s > self.world.now
            name = "nothing runs that was cancelled, expired or has run"
            self.expect(waits, name, f"{ticket.owner[0].number}")
            bound = self.bounds.get(number, self.world.num_batches + 1)
            name = "what is too old starts within four batches for each that is older, and itself"
            self.expect(self.world.num_batches < bound, name, f"{number}")

    def look_at_refusal(
        self, error: QueueFull | RateLimited, before: tuple[int, int], asked: Asked
    ) -> None:
        """Full means full, of this client or of all; and it says when to come back."""
        share = 0.5 if isinstance(error, RateLimited) else 1.0
        client = asked.terms.client
        of = list(self.world.waiting.values())
        if share < 1.0:
            of = [ticket for ticket in of if ticket.terms.client == client]
        tokens = sum(asked.sizes) + sum(ticket.num_tokens for ticket in of)
        num_sequences = len(asked.sizes) + len(of)
        is_over = tokens > share * MAX_QUEUE_TOKENS or num_sequences > share * MAX_QUEUE_SEQUENCES
        name = "only a full queue refuses, says when to come back and keeps nothing"
        scheduler = self.world.scheduler
        is_same = before == (scheduler.queue_tokens, scheduler.queue_sequences)
        self.expect(bool(is_over and of and error.retry_after_s and is_same), name, f"{error}")

    def look(self) -> None:
        world, scheduler = self.world, self.world.scheduler
        name = "the memory budget is never exceeded"
        self.expect(world.ledger.free_bytes >= 0, name, f"{world.ledger.free_bytes}")
        account = "the queue's account is what waits"
        tokens = sum(ticket.num_tokens for ticket in world.waiting.values())
        self.expect(scheduler.queue_tokens == tokens, account, f"{tokens} tokens")
        self.expect(scheduler.queue_sequences == len(world.waiting), account, "sequences")
        for model in {ticket.model for ticket in (*world.waiting.values(), *world.running)}:
            resident = world.ledger.get(model)
            is_held = resident is not None and resident.users > 0
            self.expect(is_held, "a model with work is resident and in use", model)

    def look_at_the_end(self) -> None:
        name = "every request is answered exactly once"
        for asked in self.world.asked:
            self.expect(len(asked.answers) == 1, name, f"{asked.number}: {asked.answers}")
            self.expect(not asked.holds, "nothing holds a model at the end", f"{asked.number}")
        self.expect(not self.world.waiting and not self.world.running, name, "work is left")
        per_model = [self.world.scheduler.waiting_tokens(model) for model in self.world.sizes]
        self.expect(not any(per_model), "the queue's account is what waits", f"{per_model}")
