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
    """Measures sizes in order, as far as time allows.

    Args:
        sizes: Ascending.
        limit_s: What all batches together may take.
        batch_limit_s: What one may take, as far as that can be foreseen: a request may wait for it.
    """

    def __init__(self, sizes: Sequence[int], *, limit_s: float, batch_limit_s: float) -> None:
        self.points: list[Point] = []
        self._sizes = sizes
        self._left_s = limit_s
        self._batch_limit_s = batch_limit_s
        self._is_cut = False

    def next_size(self) -> int | None:
        """Return what to measure next; None: enough is known, or there is no time for more."""
        if len(self.points) == len(self._sizes) or self._falls():
            return None
        size = self._sizes[len(self.points)]
        self._is_cut = self._left_s <= 0
        if self.points:
            last = self.points[-1]
            foreseen_s = last.seconds * size / last.size
            self._is_cut |= foreseen_s > min(self._batch_limit_s, self._left_s)
        return None if self._is_cut else size

    def note(self, tokens: int, seconds: Sequence[float]) -> None:
        """Hear how long the batches of the size asked for took, and of how many tokens they were.

        Args:
            tokens: Of each.
            seconds: Of each; at least one, above 0.
        """
        self.points.append(Point(self._sizes[len(self.points)], tokens, min(seconds)))
        self._left_s -= sum(seconds)

    def result(self) -> int | None:
        """Return the knee; None where larger batches, for which there was no time, may be faster.

        Only what was still rising when time ran out says so little.
        """
        if not self.points:
            return None
        found = knee(self.points)
        return None if self._is_cut and found == self.points[-1].size else found

    def _falls(self) -> bool:
        best = max((one.rate for one in self.points), default=0.0)
        latest = self.points[-MAX_FALLS:]
        return len(latest) == MAX_FALLS and all(one.rate < ENOUGH * best for one in latest)
