"""Images as a module of transformers takes them: tensors of one image, joined where they are alike.

Two images are alike that have the same shapes and are asked the same: no padding takes part, so
that a batch changes no number.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Series
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import PackedBatch, Rows, Sequence
from sie_mcp.adapters.flat import FlatWeights
from sie_mcp.adapters.generic.families import Family

# Pixels that count as one token in the queue.
PIXELS_PER_TOKEN = 256
# Images that run at once: what lies between layers grows with them.
MAX_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class Parts:
    """What an adapter is made of: the library's module and processor, weights on the device."""

    card: wire.ModelCard
    weights: FlatWeights
    module: Any
    processor: Any
    family: Family


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One image and what is asked of it.

    Attributes:
        tensors: By the names of the module's arguments, the first dimension 1, of texts any.
        asked: What tells apart what is asked: the same for images that can run together.
        size: Height and width of the picture, in pixels.
        extra: What the adapter's own `forward` needs to know.
    """

    tensors: Mapping[str, torch.Tensor]
    asked: tuple[object, ...]
    size: tuple[int, int]
    extra: object = None

    @property
    def kind(self) -> tuple[object, ...]:
        """What images that run together have in common."""
        shapes = tuple((name, tuple(one.shape)) for name, one in sorted(self.tensors.items()))
        return (self.asked, shapes)

    def sequence(self, num_more: int) -> Sequence:
        """Return what runs: a token for 256 pixels, and those that it is asked or writes."""
        height, width = self.tensors["pixel_values"].shape[-2:]
        num_tokens = max(height * width // PIXELS_PER_TOKEN, 1) + num_more
        return Sequence(np.zeros(num_tokens, np.int64), outputs=frozenset(), extra=self)


def groups(seen: Series[Seen]) -> Iterator[list[int]]:
    """Yield the places of those that run together."""
    by_kind: dict[tuple[object, ...], list[int]] = {}
    for place, one in enumerate(seen):
        by_kind.setdefault(one.kind, []).append(place)
    for places in by_kind.values():
        for first in range(0, len(places), MAX_TOGETHER):
            yield places[first : first + MAX_TOGETHER]


def in_groups(batch: PackedBatch, run: Callable[[list[Seen]], Iterable[torch.Tensor]]) -> Rows:
    """Return rows of every image of a batch; `run` makes those of images that run together."""
    rows: list[torch.Tensor] = [torch.empty(0)] * len(batch.extras)
    for places in groups(batch.extras):
        made = run([batch.extras[place] for place in places])
        for place, one in zip(places, made, strict=True):
            rows[place] = one
    offsets = (0, *itertools.accumulate(len(one) for one in rows))
    return Rows(torch.cat(rows), offsets)


def joined(seen: Series[Seen], device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return the module's arguments for several images, numbers of colours in `dtype`."""
    tensors = {
        name: torch.cat([one.tensors[name] for one in seen]).to(device, non_blocking=True)
        for name in seen[0].tensors
    }
    return {
        name: one.to(dtype) if one.is_floating_point() else one for name, one in tensors.items()
    }


def called(function: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """Call a part of the library.

    Raises:
        RuntimeError: the library cannot run it.
    """
    try:
        return function(**inputs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RuntimeError(f"transformers refused the batch: {error}") from error
