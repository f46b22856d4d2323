"""What waits for the device: one sequence in the queue, and the terms its caller asked for.

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
    """One sequence in the queue. `owner` is the caller's own: the scheduler never looks.

    Attributes:
        number: Its place in the order of arrival.
        is_done: It waits no more: taken, cancelled or expired.
    """

    model: str
    num_tokens: int
    submitted_s: float
    owner: OwnerT
    terms: Terms = field(default_factory=Terms)
    number: int = 0
    is_done: bool = False
