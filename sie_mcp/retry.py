"""How long one request is tried again, by the kind of its error.

Decides only; it neither sends nor sleeps. A load (or a worker's start) is waited for in seconds,
everything else is tried a few times. A deadline that passed is never tried again: the same work
would pass it again. A request whose worker ended under it is tried once more, alone: at the second
time it is taken for the reason.
"""

import random
from collections import Counter
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import NoReturn

import anyio

from sie_mcp.errors import (
    DeadlineExceeded,
    InferenceError,
    ModelLoading,
    SieError,
    WorkerLost,
    WorkerUnavailable,
)

# The worker itself holds a request while the model loads; this only parts two such requests.
LOAD_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
# A worker that is being restarted is asked for this often, by each request that waits for it.
RESTART_PAUSE_S = 0.5
MAX_LOSSES = 2
MAX_TRIES = {"WORKER_UNAVAILABLE": 3, "QUEUE_FULL": 6, "RATE_LIMIT": 6, "RESOURCE_EXHAUSTED": 3}
DEFAULT_MAX_TRIES = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """How the pauses between tries are drawn out.

    Attributes:
        longest_told_s: A Retry-After up to this is kept to; what asks for more is given up, not
            asked early. None: no pause is longer than LONGEST_PAUSE_S, whatever was asked for.
        jitter: A pause is longer by up to this part of it, so that callers that failed together do
            not come back together.
    """

    longest_told_s: float | None = None
    jitter: float = 0.0


PACE = Pace()


class Patience:
    """The patience of one request.

    Attributes:
        had_worker: A worker has answered or was lost, so that another is on its way.
        num_lost: How many workers ended while they ran the request.
    """

    def __init__(self, load_wait_s: float, pace: Pace = PACE) -> None:
        self.had_worker = False
        self.num_lost = 0
        self._load_wait_s = load_wait_s
        self._pace = pace
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
        if isinstance(error, WorkerLost):
            return self._pause_after_loss(error)
        is_restart = isinstance(error, WorkerUnavailable) and self.had_worker
        if is_restart and self.load_left_s > 0:
            return RESTART_PAUSE_S
        self._failures[error.code] += 1
        num_failures = self._failures[error.code]
        if num_failures >= MAX_TRIES.get(error.code, DEFAULT_MAX_TRIES):
            return None
        if not is_restart:
            # The worker that comes next starts from nothing; one that does not come is not waited
            # for again.
            self._since_s = anyio.current_time()
        return self._drawn_out(error.retry_after_s or 0.1, num_failures)

    def raise_last(self, error: SieError) -> NoReturn:
        """Raise what the caller is told of an error that is not tried again."""
        if not isinstance(error, WorkerLost):
            raise error
        raise InferenceError(
            f"the worker ended {self.num_lost} times while it ran this request, which is not "
            "tried again; send its items in smaller requests to find the one at fault"
        ) from error

    def _drawn_out(self, told_s: float, num_failures: int) -> float | None:
        longest_s = LONGEST_PAUSE_S
        if self._pace.longest_told_s is not None:
            if told_s > self._pace.longest_told_s:
                return None
            longest_s = max(longest_s, told_s)
        pause_s = float(min(told_s * 2 ** (num_failures - 1), longest_s))
        return pause_s * (1.0 + self._pace.jitter * random.random())

    def _pause_after_loss(self, error: WorkerLost) -> float | None:
        self.num_lost += 1
        self.had_worker = True
        if self.num_lost >= MAX_LOSSES:
            return None
        self._since_s = anyio.current_time()
        return error.retry_after_s or 0.1


class Suspects:
    """Requests whose worker ended under them: each is tried again while no other of them is.

    So one that ends workers is not tried together with others that were only beside it.
    """

    def __init__(self) -> None:
        self._turn = anyio.Lock()

    def turn(self, patience: Patience) -> AbstractAsyncContextManager[None]:
        """Return what to hold while sending: nothing for those that are no suspects."""
        return self._turn if patience.num_lost else nullcontext()
