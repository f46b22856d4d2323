"""Who leaves the device first: one small interface, two policies.

Bookkeeping only: who may leave at all, and when, is the ledger's to say.
"""

from typing import Literal, Protocol

EvictionName = Literal["lru", "greedy_dual"]


class Evictable(Protocol):
    """What a policy knows of a model."""

    @property
    def name(self) -> str:
        """What it is kept under."""

    @property
    def size_bytes(self) -> int:
        """What its eviction frees."""

    @property
    def load_s(self) -> float:
        """What its last load took: the cost of having evicted it."""

    @property
    def last_used_s(self) -> float:
        """When it was last used."""


class EvictionPolicy(Protocol):
    """Orders models by what keeping them is worth. Told of every use and every eviction."""

    def used(self, model: Evictable) -> None:
        """Hear that a model was loaded or used; its fields are up to date."""

    def left(self, model: Evictable, *, is_victim: bool) -> None:
        """Hear that a model is gone: a victim made room for another one."""

    def worth(self, model: Evictable) -> float:
        """Return a number that is lowest for who leaves first."""


class LeastRecentlyUsed:
    """The model that was unused for longest leaves first."""

    def used(self, model: Evictable) -> None:
        """Remember nothing: the model has its time."""

    def left(self, model: Evictable, *, is_victim: bool) -> None:
        """Remember nothing."""

    def worth(self, model: Evictable) -> float:
        """Return the time of the last use."""
        return model.last_used_s


class GreedyDual:
    """The model whose bytes save the fewest seconds of loading leaves first.

    GreedyDual-Size (Cao and Irani 1997): a use makes a model worth its load seconds a byte more
    than the clock, and the clock rises to what the last victim was worth, so that models that are
    not used any more fall behind.
    """

    def __init__(self) -> None:
        self._clock = 0.0
        self._worth: dict[str, float] = {}

    def used(self, model: Evictable) -> None:
        """Renew its worth from the present clock."""
        self._worth[model.name] = self._clock + model.load_s / max(model.size_bytes, 1)

    def left(self, model: Evictable, *, is_victim: bool) -> None:
        """Let the clock rise to what a victim was worth."""
        worth = self._worth.pop(model.name, self._clock)
        if is_victim:
            self._clock = max(self._clock, worth)

    def worth(self, model: Evictable) -> float:
        """Return what it was worth at its last use."""
        return self._worth.get(model.name, self._clock)


def make_policy(name: EvictionName) -> EvictionPolicy:
    """Return the policy of a setting."""
    return LeastRecentlyUsed() if name == "lru" else GreedyDual()
