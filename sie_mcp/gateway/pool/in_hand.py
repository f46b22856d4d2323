"""Requests that workers have in hand, taken back from one that has fallen silent.

A worker that dies breaks its connections, and its requests hear of it. One behind a network that is
cut, or whose process is stopped, breaks nothing: its requests would wait for their whole time.
Lives on one event loop; sends nothing.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class InHand:
    """Scopes of requests, by the base URL of the worker that has them."""

    def __init__(self) -> None:
        self._scopes: defaultdict[str, set[anyio.CancelScope]] = defaultdict(set)

    @contextmanager
    def held(self, worker: str, scope: anyio.CancelScope) -> Iterator[None]:
        """Have the scope cancelled if the worker falls silent during the block."""
        self._scopes[worker].add(scope)
        try:
            yield
        finally:
            self._scopes[worker].discard(scope)
            if not self._scopes[worker]:
                del self._scopes[worker]

    def take_back(self, worker: str) -> int:
        """Cancel what a worker has in hand; return how many requests that were."""
        scopes = list(self._scopes.get(worker, ()))
        for scope in scopes:
            scope.cancel()
        return len(scopes)
