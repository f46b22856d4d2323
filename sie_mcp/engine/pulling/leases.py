"""What a worker was told to pull, and until when. Bookkeeping only: time comes in."""

from collections.abc import Collection

from sie_mcp.broker.pull_request import PullRequest
from sie_mcp.errors import InvalidInput

# Of all gateways together; each lane of each is a request that waits at the broker.
MAX_MODELS = 512


class Leases:
    """Tokens of one pool's models.

    Args:
        pool: The worker's.
    """

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._until_s: dict[str, float] = {}
        self.ack_wait_s = 30.0
        self.slots = 8

    def take(self, wish: PullRequest, now_s: float) -> int:
        """Hear what to pull; return how many models that makes.

        Raises:
            InvalidInput: it is for workers of another pool.
        """
        if wish.pool != self._pool:
            raise InvalidInput(
                f"this worker is of pool {self._pool} (queue_pool), not of {wish.pool}"
            )
        self.ack_wait_s, self.slots = wish.ack_wait_s, wish.slots
        for token in wish.tokens:
            if token in self._until_s or len(self._until_s) < MAX_MODELS:
                self._until_s[token] = max(self._until_s.get(token, 0.0), now_s + wish.lease_s)
        return len(self.tokens(now_s))

    def tokens(self, now_s: float) -> Collection[str]:
        """Return what is to be pulled now."""
        self._until_s = {name: end for name, end in self._until_s.items() if end > now_s}
        return self._until_s.keys()

    def left_s(self, token: str, now_s: float) -> float:
        """Return for how long a token is still to be pulled; 0: not any more."""
        return max(self._until_s.get(token, 0.0) - now_s, 0.0)
