"""How many tokens a batch of each model has, where that was measured: on one device.

Lives on the event loop; the device thread only looks into `tokens`. Measures nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from sie_mcp import wire
from sie_mcp.catalogue import batch_sizes
from sie_mcp.catalogue.batch_sizes import Measured
from sie_mcp.engine.knee import Point

logger = logging.getLogger(__name__)

# A measured batch is at most so many defaults on a GPU, where memory has room for its workspace;
# on a CPU larger ones are no faster (evals/LOG.md, 14).
MOST_DEFAULTS = 4
# The part of the memory that such a workspace may take.
WORKSPACE_PART = 1 / 16
# Names come from callers: those heard of longest ago are forgotten beyond this many.
MAX_MODELS = 256


@dataclass(frozen=True, slots=True)
class Bounds:
    """Tokens of a batch: where nothing was measured, and at most; and what one takes."""

    default: int
    most: int
    bytes_per_token: int


def bounds(device: torch.device, default: int, total_bytes: int, bytes_per_token: int) -> Bounds:
    """Return between what the size of a batch is looked for."""
    most = default
    if device.type == "cuda":
        fits = int(WORKSPACE_PART * total_bytes) // bytes_per_token
        most = max(default, min(MOST_DEFAULTS * default, fits))
    return Bounds(default, most, bytes_per_token)


class BatchSizes:
    """What is known of models on one device, in this process and from earlier ones.

    Args:
        folder: The cache's.
        device: The card or processor, and how models run there.
        limits: Of what is used.
        reserve: Told each number of tokens that is used from now on.
    """

    def __init__(
        self, folder: Path, device: str, limits: Bounds, reserve: Callable[[int], None]
    ) -> None:
        # By the queue's word for a model.
        self.tokens: dict[str, int] = {}
        self.limits = limits
        self._folder, self._device, self._reserve = folder, device, reserve
        self._revisions: dict[str, str] = {}
        self._known = {one.key: one.tokens for one in batch_sizes.read(folder)}
        self._given_up: set[str] = set()

    def hear(self, name: str, card: wire.ModelCard) -> None:
        """Hear that a model is about to run: what is known of it holds from now on."""
        if card.revision is None or self._revisions.get(name) == card.revision:
            return
        self.forget(name)
        if len(self._revisions) >= MAX_MODELS:
            self.forget(next(iter(self._revisions)))
        self._revisions[name] = card.revision
        tokens = self._known.get(self._key(card.revision))
        if tokens is not None:
            self.tokens[name] = min(tokens, self.limits.most)
            self._reserve(self.tokens[name])

    def forget(self, name: str) -> None:
        """Have batches of this name be of the default again."""
        self.tokens.pop(name, None)
        self._revisions.pop(name, None)

    def wants(self, card: wire.ModelCard) -> bool:
        """Whether a model should be measured: it reads packed texts, and nobody has yet."""
        revision = card.revision
        if revision is None or not card.packed or "text" not in card.inputs:
            return False
        return self._key(revision) not in self._known and revision not in self._given_up

    def give_up(self, card: wire.ModelCard) -> None:
        """Do not want this one any more, as long as the process runs."""
        self._given_up.add(card.revision or "")

    def found(self, card: wire.ModelCard, tokens: int, points: list[Point]) -> Measured:
        """Use what was measured from now on; return it for `keep`."""
        revision = card.revision
        assert revision is not None
        self._known[self._key(revision)] = tokens
        self._revisions.pop(card.name, None)
        self.hear(card.name, card)
        curve = tuple((one.size, round(one.rate)) for one in points)
        logger.info("measured model=%s max_batch_tokens=%d curve=%s", card.name, tokens, curve)
        return Measured(
            model=card.name,
            revision=revision,
            device=self._device,
            torch=torch.__version__,
            tokens=tokens,
            curve=curve,
        )

    def keep(self, measured: Measured) -> None:
        """Write it down for the next start; blocks for a moment, on any thread."""
        try:
            batch_sizes.keep(self._folder, measured)
        except OSError as error:
            logger.warning("not kept for the next start folder=%s error=%s", self._folder, error)

    def settings(self) -> list[wire.EffectiveSetting]:
        """Return what is in force instead of the default."""
        return [
            wire.EffectiveSetting(
                name=f"max_batch_tokens of {name}",
                requested="auto",
                effective=str(tokens),
                reason=f"measured on {self._device}",
            )
            for name, tokens in list(self.tokens.items())
        ]

    def _key(self, revision: str) -> tuple[str, str, str]:
        return revision, self._device, torch.__version__
