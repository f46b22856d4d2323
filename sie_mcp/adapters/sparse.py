"""Learned sparse vectors over the vocabulary (SPLADE).

Source: Formal et al. 2021; activation and pooling as sentence-transformers' SpladePooling.
"""

from bisect import bisect_left, bisect_right

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows, Sequence, SequenceOutput
from sie_mcp.adapters.heaviest import common_limit, heaviest
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.sparse_vectors import check_sparse, make_sparse
from sie_mcp.adapters.static_queries import StaticQueries

# Logits are (tokens, vocabulary): 1,024 rows of 30,522 float32 are 125 MB.
MAX_LOGIT_TOKENS = 1024


class SparseOutput(Output):
    """Weights of vocabulary entries, nonzero ones only, ids ascending."""

    name: wire.OutputType = "sparse"
    source: wire.OutputType = "sparse"

    def __init__(self, recipe: Recipe, model: Model, queries: StaticQueries | None = None) -> None:
        self._queries = queries
        self._recipe = recipe
        self._model = model
        self._dims: int = recipe.config["vocab_size"]

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse what a sparse vector has no meaning for."""
        check_sparse(params)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Compute logits a few tokens at a time and keep what is not zero.

        On CUDA where every sequence has a limit: as many of each, known without asking the device.
        """
        pooled = self._pool(hidden_states, batch)
        if self._recipe.sparse_pooling == "max":
            pooled = self._activate(pooled)
        limit = common_limit(batch.extras) if pooled.is_cuda else None
        return nonzero(pooled) if limit is None else largest(pooled, limit)

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Sparse:
        """Return indices and values; no token: an empty vector."""
        if output is None and sequence is not None and self._queries is not None:
            return self._queries.result(sequence, params)
        indices = np.zeros(0, np.int32) if output is None else output["sparse_indices"]
        values = np.zeros(0, np.float32) if output is None else output["sparse_values"]
        # Where as many were taken of each, some have none so many.
        kept = values != 0
        indices, values = indices[kept], values[kept]
        return make_sparse(indices, values, self._dims, params)

    def _pool(self, hidden_states: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Pool the logits of each sequence, `(num_seqs, dims)`; for "max" not yet activated."""
        pooled = hidden_states.new_zeros(batch.num_seqs, self._dims, dtype=torch.float32)
        has_kernel = self._recipe.sparse_pooling == "max"
        for start in range(0, batch.num_tokens, MAX_LOGIT_TOKENS):
            end = min(start + MAX_LOGIT_TOKENS, batch.num_tokens)
            logits = self._model.heads["sparse"](hidden_states[start:end])
            ends = batch.offsets
            sequences = range(bisect_right(ends, start) - 1, bisect_left(ends, end))
            kernels = usable("peaks", logits, batch) if has_kernel else None
            if kernels is not None:
                kernels.raise_to(pooled, logits.contiguous(), batch.cu_seqlens, start, sequences)
                continue
            logits = logits.float()
            for index in sequences:
                first, last = ends[index : index + 2]
                own = logits[max(first, start) - start : min(last, end) - start]
                self._add(pooled[index], own)
        return pooled

    def _add(self, pooled: torch.Tensor, logits: torch.Tensor) -> None:
        """Pool one sequence's logits, or some of them, into its row."""
        if self._recipe.sparse_pooling == "sum":
            pooled += self._activate(logits).sum(dim=0)
        else:
            # The activation only grows with the logit, and is zero below zero: it can wait.
            torch.maximum(pooled, logits.amax(dim=0), out=pooled)

    def _activate(self, logits: torch.Tensor) -> torch.Tensor:
        weights = torch.log1p(torch.relu(logits))
        return torch.log1p(weights) if self._recipe.sparse_activation == "log1p_relu" else weights


def nonzero(weights: torch.Tensor) -> Outputs:
    """Return what is not zero of each row of `(num_seqs, dims)`; waits for the device."""
    found = torch.nonzero(weights)
    counts = torch.bincount(found[:, 0], minlength=len(weights)).cpu().tolist()
    offsets = tuple(int(end) for end in np.cumsum((0, *counts)))
    return {
        "sparse_indices": Rows(found[:, 1].to(torch.int32), offsets),
        "sparse_values": Rows(weights[found[:, 0], found[:, 1]], offsets),
    }


def largest(weights: torch.Tensor, count: int) -> Outputs:
    """Return the `count` largest of each row of `(num_seqs, dims)`, zeros among them."""
    count = min(count, weights.shape[1])
    indices, values = heaviest(weights, count)
    offsets = tuple(range(0, len(weights) * count + 1, count))
    return {
        "sparse_indices": Rows(indices.flatten().to(torch.int32), offsets),
        "sparse_values": Rows(values.flatten(), offsets),
    }
