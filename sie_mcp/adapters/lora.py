"""Low-rank adapters: what a fine-tuned model adds to its base, kept apart and added per text.

Source: Hu et al. 2021. Data and its arithmetic; knows no files, and of a batch only which rows are
whose.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

from sie_mcp.wire import ModelCard


@dataclass(frozen=True, slots=True)
class LowRank:
    """Adds up(down(x)) to the outputs of a linear layer from `first` on.

    `down` is `(rank, in_features)`, `up` `(num_outputs, rank)`, already scaled.
    """

    down: torch.Tensor
    up: torch.Tensor
    first: int

    def change(self, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        """Change `(num_rows, out_features)` in place."""
        added = functional.linear(functional.linear(inputs.to(self.down.dtype), self.down), self.up)
        outputs[:, self.first : self.first + len(self.up)] += added.to(outputs.dtype)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Weights that stand in the place of a linear layer's own, as a classifier's."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def change(self, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        """Change `(num_rows, out_features)` in place."""
        new = functional.linear(inputs.to(self.weight.dtype), self.weight, self.bias)
        outputs.copy_(new.to(outputs.dtype))


@dataclass(frozen=True, slots=True)
class LowRankTable:
    """Adds up(rows[ids]) to what a table gives for ids.

    `rows` is `(num_ids, rank)`, `up` `(width, rank)`, already scaled.
    """

    rows: torch.Tensor
    up: torch.Tensor

    def change(self, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        """Change `(num_rows, width)` in place; `inputs` are the ids, int64 `(num_rows,)`."""
        added = functional.linear(functional.embedding(inputs, self.rows), self.up)
        outputs += added.to(outputs.dtype)


Change = LowRank | Replacement | LowRankTable


@dataclass(slots=True, eq=False)
class Lora:
    """One adapter on the device: what it changes, by the path of the layer in the model.

    One of the checkpoint's own is part of its model. Another has its own place in memory, where it
    does not move: reading a few megabytes again costs no more than keeping them would.
    """

    card: ModelCard
    changes: Mapping[str, tuple[Change, ...]]
    weights: None = None
