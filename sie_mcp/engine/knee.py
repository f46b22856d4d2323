"""How many tokens a batch needs to be fast: which sizes to try, when to stop, what was found.

Pure: no clock, no model, no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A batch is large enough that has this part of the best speed: larger ones hold callers longer.
ENOUGH = 0.95
# The smallest size tried, as a part of the default.
SMALLEST_PART = 16
# So many sizes in a row below that part show that it goes downhill.
MAX_FALLS = 2
# Of a size: the first makes kernels and finds memory, and others may be disturbed.
NUM_ROUNDS = 6
# Of so few the fastest may still be one that was disturbed.
MIN_RUNS = 3


@dataclass(frozen=True, slots=True)
class Point:
    """What one size of batch took, at best."""

    size: int
    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


def sizes(default: int, most: int) -> tuple[int, ...]:
    """Return the sizes to try, each twice the one before, up to `most`."""
    found = [max(default // SMALLEST_PART, 1)]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return tuple(found)


def knee(points: Sequence[Point]) -> int:
    """Return the smallest size that has enough of the best speed; there is at least one point."""
    best = max(one.rate for one in points)
    return min(one.size for one in points if one.rate >= ENOUGH * best)


class Sweep:
    """Measures sizes in rounds, each from the smallest up, as far as time allows.

    The fastest run of each size counts, and rounds keep those apart in time: what disturbs the
    machine for a while then costs each size a run, and not one size all of its own.

    Args:
        sizes: Ascending.
        limit_s: What all batches together may take.
        batch_limit_s: What one may take, as far as that can be foreseen: a request may wait for it.
    """

    def __init__(self, sizes: Sequence[int], *, limit_s: float, batch_limit_s: float) -> None:
        self._sizes = sizes
        self._left_s = limit_s
        self._batch_limit_s = batch_limit_s
        self._round = self._place = 0
        # The fastest of each size, in order, and how many there were.
        self._fastest: list[Point] = []
        self._num_runs: list[int] = []

    @property
    def points(self) -> list[Point]:
        """The sizes that ran often enough; the smallest first, none in between is missing."""
        return [
            point
            for point, runs in zip(self._fastest, self._num_runs, strict=True)
            if runs >= MIN_RUNS
        ]

    def next_size(self) -> int | None:
        """Return what to run next; None: enough is known, or there is no time for more."""
        if self._place and not self._goes_up():
            self._round, self._place = self._round + 1, 0
        if self._round == NUM_ROUNDS or self._left_s <= self._foreseen_s():
            return None
        return self._sizes[self._place]

    def note(self, tokens: int, seconds: float) -> None:
        """Hear how long the batch took that was asked for, above 0, and how many tokens it had."""
        point = Point(self._sizes[self._place], tokens, seconds)
        if self._place == len(self._fastest):
            self._fastest.append(point)
            self._num_runs.append(0)
        self._num_runs[self._place] += 1
        if point.seconds < self._fastest[self._place].seconds:
            self._fastest[self._place] = point
        self._place += 1
        self._left_s -= seconds

    def result(self) -> int | None:
        """Return the knee; None where larger batches, for which there was no time, may be faster.

        Only what was still rising when time ran out says so little.
        """
        points = self.points
        if not points:
            return None
        found = knee(points)
        is_whole = len(points) == len(self._sizes) or _falls(points)
        return found if is_whole or found != points[-1].size else None

    def _goes_up(self) -> bool:
        """Whether the next size of this round may be faster, and is quick enough to try.

        Asked anew in each round: what one disturbed run says of sizes is not the last word.
        """
        if self._place == len(self._sizes) or _falls(self._fastest[: self._place]):
            return False
        return self._foreseen_s() <= min(self._batch_limit_s, self._left_s)

    def _foreseen_s(self) -> float:
        """Return what the next batch takes, if nothing disturbs it: what it did, or smaller ones.

        A first run that was slow does not keep a size from its second.
        """
        size, smaller = self._sizes[self._place], self._fastest[: self._place]
        by_smaller = [smaller[-1].seconds * size / smaller[-1].size] if smaller else []
        own = [one.seconds for one in self._fastest[self._place : self._place + 1]]
        return min([*own, *by_smaller], default=0.0)


def _falls(points: Sequence[Point]) -> bool:
    """Whether the latest are all slower than one before them."""
    best = max((one.rate for one in points), default=0.0)
    latest = points[-MAX_FALLS:]
    return len(latest) == MAX_FALLS and all(one.rate < ENOUGH * best for one in latest)
