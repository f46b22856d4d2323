"""Learned sparse vectors over the vocabulary (SPLADE).

Source: Formal et al. 2021; activation and pooling as sentence-transformers' SpladePooling.
"""

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows, Sequence, SequenceOutput
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import InvalidInput

# Logits are (tokens, vocabulary): 1,024 rows of 30,522 float32 are 125 MB.
MAX_LOGIT_TOKENS = 1024


class SparseOutput:
    """Weights of vocabulary entries, nonzero ones only, ids ascending."""

    name: wire.OutputType = "sparse"

    def __init__(self, recipe: Recipe, model: Model) -> None:
        self._recipe = recipe
        self._model = model
        self._dims: int = recipe.config["vocab_size"]

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse what a sparse vector has no meaning for."""
        if params.options.dimensions is not None:
            raise InvalidInput("dimensions does not apply to sparse vectors; leave it out")
        if params.output_dtype not in ("float32", "float16"):
            raise InvalidInput(
                f"output_dtype {params.output_dtype} does not apply to sparse vectors; "
                "use float32 or float16"
            )

    def max_length(self, *, is_query: bool) -> int | None:
        """Return None: the model's own limit holds."""
        return None

    def expand(self, sequence: Sequence, *, is_query: bool) -> Sequence:
        """Return the sequence as it is."""
        return sequence

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Compute logits a few sequences at a time and keep what is not zero."""
        pooled = torch.cat(
            [
                self._pool(hidden_states[batch.offsets[start] : batch.offsets[end]], lengths)
                for start, end, lengths in _groups(batch.lengths)
            ]
        )
        found = torch.nonzero(pooled)
        counts = torch.bincount(found[:, 0], minlength=batch.num_seqs).cpu().tolist()
        offsets = tuple(int(end) for end in np.cumsum((0, *counts)))
        return {
            "sparse_indices": Rows(found[:, 1].to(torch.int32), offsets),
            "sparse_values": Rows(pooled[found[:, 0], found[:, 1]], offsets),
        }

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Sparse:
        """Return indices and values; no token: an empty vector."""
        indices = np.zeros(0, np.int32) if output is None else output["sparse_indices"]
        values = np.zeros(0, np.float32) if output is None else output["sparse_values"]
        return wire.Sparse(
            dims=self._dims,
            dtype=params.output_dtype,
            indices=indices,
            values=values.astype(params.output_dtype),
        )

    def _pool(self, hidden_states: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
        logits = self._model.heads["sparse"](hidden_states)
        sequences = logits.float().split(lengths)
        if self._recipe.sparse_pooling == "max":
            # The activation only grows with the logit: pooling first saves its work.
            return self._activate(torch.stack([one.amax(dim=0) for one in sequences]))
        return torch.stack([self._activate(one).sum(dim=0) for one in sequences])

    def _activate(self, logits: torch.Tensor) -> torch.Tensor:
        weights = torch.log1p(torch.relu(logits))
        return torch.log1p(weights) if self._recipe.sparse_activation == "log1p_relu" else weights


def _groups(lengths: tuple[int, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Cut the batch into runs of sequences of at most MAX_LOGIT_TOKENS tokens, or one sequence."""
    groups: list[tuple[int, int, tuple[int, ...]]] = []
    start = 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and sum(lengths[start : end + 1]) <= MAX_LOGIT_TOKENS:
            end += 1
        groups.append((start, end, lengths[start:end]))
        start = end
    return groups
