"""How long one request is tried again, by the kind of its error.

Decides only; it neither sends nor sleeps. A load (or a worker's start) is waited for in seconds,
everything else is tried a few times. A deadline that passed is never tried again: the same work
would pass it again.
"""

from collections import Counter

import anyio

from sie_mcp.errors import DeadlineExceeded, ModelLoading, SieError

# The worker itself holds a request while the model loads; this only parts two such requests.
LOAD_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
# A worker that is lost three times in one request is being killed by it.
MAX_TRIES = {"WORKER_UNAVAILABLE": 3, "QUEUE_FULL": 6, "RATE_LIMIT": 6, "RESOURCE_EXHAUSTED": 3}
DEFAULT_MAX_TRIES = 3


class Patience:
    """The patience of one request."""

    def __init__(self, load_wait_s: float) -> None:
        self._load_wait_s = load_wait_s
        self._since_s = anyio.current_time()
        self._failures: Counter[str] = Counter()

    @property
    def waited_s(self) -> float:
        """Seconds spent on waiting for a worker or a model."""
        return anyio.current_time() - self._since_s

    @property
    def load_left_s(self) -> float:
        """Seconds that a load may still take."""
        return max(self._load_wait_s - self.waited_s, 0.0)

    def pause_s(self, error: SieError) -> float | None:
        """Return after how many seconds to try again; None to give up."""
        if not error.retryable or isinstance(error, DeadlineExceeded):
            return None
        if isinstance(error, ModelLoading):
            return LOAD_PAUSE_S if self.load_left_s > 0 else None
        self._failures[error.code] += 1
        num_failures = self._failures[error.code]
        if num_failures >= MAX_TRIES.get(error.code, DEFAULT_MAX_TRIES):
            return None
        # The worker that comes next starts from nothing.
        self._since_s = anyio.current_time()
        told_s = error.retry_after_s or 0.1
        return float(min(told_s * 2 ** (num_failures - 1), LONGEST_PAUSE_S))
