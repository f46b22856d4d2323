"""What waits for the device: a place in the queue, and the terms its caller asked for.

Data only: nothing here decides.
"""

import math
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

OwnerT = TypeVar("OwnerT")

Priority = Literal["interactive", "bulk"]
PRIORITIES: tuple[Priority, ...] = ("interactive", "bulk")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a request asks of the queue.

    Attributes:
        priority: Interactive work goes first; bulk fills what is left and has a share of its own.
        client: Who asks; None where nobody said. Clients have equal parts of a model.
        deadline_s: After this time nobody waits for the answer.
    """

    priority: Priority = "interactive"
    client: int | None = None
    deadline_s: float = math.inf


@dataclass(slots=True, eq=False)
class Ticket(Generic[OwnerT]):
    """A place in the queue: a sequence, or a few short ones that run in one batch.

    Attributes:
        num_tokens: Of all its sequences.
        owner: The caller's own: the scheduler never looks.
        num_sequences: How many it stands for.
        number: Its place in the order of arrival.
        is_done: It waits no more: taken, cancelled or expired.
    """

    model: str
    num_tokens: int
    submitted_s: float
    owner: OwnerT
    terms: Terms = field(default_factory=Terms)
    number: int = 0
    num_sequences: int = 1
    is_done: bool = False
