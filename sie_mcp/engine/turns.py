"""Whose turn it is: deficit round robin between models, by tokens and weights.

A turn is several batches long, so that one model's requests are drained together. Between two
models of weights v and w that both always have work, tokens / weight never differ by more than
2 Q + B / min(v, w), where Q are the tokens of a turn and B those of a batch.
"""

from collections import deque
from collections.abc import Mapping


class Turns:
    """The models that have work, in the order of their turns.

    Args:
        turn_tokens: What a model of weight 1 gets in one turn.
        weights: Model -> weight; 1 where it says nothing.
    """

    def __init__(self, turn_tokens: int, weights: Mapping[str, float]) -> None:
        self._turn_tokens = turn_tokens
        self._weights = weights
        self._ring: deque[str] = deque()
        self._left: dict[str, float] = {}
        self._has_begun = False

    def enter(self, model: str) -> None:
        """Put a model that has work now at the end of the round."""
        self._ring.append(model)
        self._left[model] = 0.0

    def leave(self, model: str) -> None:
        """Take out a model that has no more work; the rest of its turn is forgone."""
        if self._ring[0] == model:
            self._has_begun = False
        self._ring.remove(model)
        del self._left[model]

    def charge(self, model: str, tokens: int) -> None:
        """Count tokens that a model had, in its turn or out of it; at most a turn is owed."""
        self._left[model] = max(self._left[model] - tokens, -float(self._turn_tokens))

    def next(self) -> str | None:
        """Return the model whose turn it is; None when no model has work."""
        while self._ring:
            model = self._ring[0]
            if not self._has_begun:
                self._left[model] += self._turn_tokens * self._weights.get(model, 1.0)
                self._has_begun = True
            if self._left[model] > 0:
                return model
            self._ring.rotate(-1)
            self._has_begun = False
        return None
