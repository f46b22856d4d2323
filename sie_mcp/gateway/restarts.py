"""When a worker may be started again: at once after an accident, later where it dies every time.

Bookkeeping only: time comes in as an argument; nothing here starts anything.
"""

# A worker that lived for so long did not die of its start.
STEADY_S = 30.0
# These many starts in a row cost no wait: the first, and one after an accident.
FREE_STARTS = 2
FIRST_PAUSE_S = 0.25
# Starting takes seconds of a whole core; half of the time is enough for a worker that only dies.
MAX_PAUSE_S = 5.0


class Restarts:
    """The starts of one worker, one after the other."""

    def __init__(self) -> None:
        self._started_s: float | None = None
        self.num_in_a_row = 0

    def started(self, now_s: float) -> None:
        """Count a start."""
        if self._started_s is not None and now_s - self._started_s > STEADY_S:
            self.num_in_a_row = 0
        self.num_in_a_row += 1
        self._started_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return how long the next start has to wait."""
        if self._started_s is None or self.num_in_a_row < FREE_STARTS:
            return 0.0
        exponent = min(self.num_in_a_row - FREE_STARTS, 16)
        pause_s = min(FIRST_PAUSE_S * 2.0**exponent, MAX_PAUSE_S)
        return max(self._started_s + pause_s - now_s, 0.0)
