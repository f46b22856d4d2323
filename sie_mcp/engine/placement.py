"""Which of several devices runs a request, and when a busy model gets a second one.

A pure decision: what is known of each device comes in as an argument. Nothing here loads or waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A model is brought to another device when a request would wait this long for those that hold it…
REPLICATE_WAIT_S = 0.5
# …and the other's own wait is at most this part of that: a device about as busy gains nothing.
IDLE_PART = 0.25
# Loading must pay: the wait is at least this many times what the load takes.
LOADS_OF_WAIT = 2.0


@dataclass(frozen=True, slots=True)
class LaneState:
    """What a placement knows of one device, for the model in question.

    Attributes:
        holds: The model is there, or coming.
        is_ready: It is there.
        wait_s: How long what waits for this device will take.
        tokens: Tokens of the requests that were sent there and are not answered.
        evicted_bytes: What must leave to bring the model there; None when it cannot fit now.
        free_bytes: What is left there now.
        num_loading: Models on their way there, whose bytes may not be counted yet.
        is_warm: The model is in that device's host memory: it comes back by a copy.
        load_s: What the model's last load took; 0 where it is not known.
    """

    holds: bool
    is_ready: bool
    wait_s: float
    tokens: int
    evicted_bytes: int | None
    free_bytes: int = 0
    num_loading: int = 0
    is_warm: bool = False
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Placing:
    """Where a request goes, and which other device should be given the model for later ones."""

    lane: int
    replicate_to: int | None = None


def place(lanes: Sequence[LaneState]) -> Placing:
    """Choose for one request.

    A device that has the model, by the least that waits; one to which it is coming before one
    where it would have to be loaded; else the device that has to give up the least for it.
    """
    ready = [number for number, lane in enumerate(lanes) if lane.is_ready]
    holding = ready or [number for number, lane in enumerate(lanes) if lane.holds]
    if not holding:
        return Placing(min(range(len(lanes)), key=lambda number: _room(lanes[number], number)))
    best = min(holding, key=lambda number: (lanes[number].tokens, number))
    return Placing(best, _replica(lanes, best) if ready else None)


def _room(lane: LaneState, number: int) -> tuple[int, ...]:
    """Sort by: fits at all, warm, fewest bytes evicted, fewest loads to come, most room."""
    evicted = lane.evicted_bytes
    return (
        evicted is None,
        not lane.is_warm,
        evicted or 0,
        lane.num_loading,
        -lane.free_bytes,
        lane.tokens,
        number,
    )


def _replica(lanes: Sequence[LaneState], best: int) -> int | None:
    """Return an idle device for a copy, if waiting for the best one is worse than a load."""
    wait_s = lanes[best].wait_s
    if wait_s < max(REPLICATE_WAIT_S, LOADS_OF_WAIT * lanes[best].load_s):
        return None
    if any(lane.holds and not lane.is_ready for lane in lanes):
        return None  # One copy at a time: the one on its way may be enough.
    candidates = [
        number
        for number, lane in enumerate(lanes)
        if not lane.holds and lane.evicted_bytes is not None and lane.wait_s <= IDLE_PART * wait_s
    ]
    return min(candidates, key=lambda number: _room(lanes[number], number), default=None)
