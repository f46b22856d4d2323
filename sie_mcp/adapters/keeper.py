"""Who keeps some of a model's weights in a form of its own, in place of the one buffer of all."""

from collections.abc import Collection
from typing import Protocol

import torch


class Keeper(Protocol):
    """Keeps some tensors in a form of its own while they are on the device."""

    @property
    def extra_bytes(self) -> int:
        """What that takes beside what they would take here."""

    def take(self) -> Collection[str]:
        """Bring them into that form; return their names."""

    def plain(self, name: str) -> torch.Tensor:
        """Return one as it was."""

    def drop(self) -> None:
        """Free all of them."""
