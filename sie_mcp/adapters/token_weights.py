"""Sparse vectors of the text's own tokens, each with a weight the model gives it (BGE-M3).

Source: Chen et al. 2024, section 3.2: relu of a linear layer; of a token that comes again, the
largest weight counts; special tokens have none.
"""

from collections.abc import Iterable

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows, Sequence, SequenceOutput
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.sparse_vectors import check_sparse, make_sparse


class TokenWeightsOutput(Output):
    """Weights of the tokens that a text has.

    Args:
        special_ids: Tokens that are no words.
    """

    name: wire.OutputType = "sparse"
    source: wire.OutputType = "sparse"

    def __init__(self, recipe: Recipe, model: Model, special_ids: Iterable[int]) -> None:
        self._recipe = recipe
        self._model = model
        self._special_ids = np.array(sorted(special_ids), dtype=np.int64)
        self._dims: int = recipe.config["vocab_size"]

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse what a sparse vector has no meaning for."""
        check_sparse(params)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Weigh every token; rows `(num_tokens,)`."""
        x = hidden_states
        for projection, rule in zip(self._model.projections, self._recipe.projections, strict=True):
            if rule.input_name == "token_weights":
                x = projection(x)
        return {"token_weights": Rows(x[:, 0].float(), batch.offsets)}

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Sparse:
        """Keep the largest weight of each token, special ones and zeros left out."""
        if output is None or sequence is None:
            return make_sparse(np.zeros(0, np.int32), np.zeros(0, np.float32), self._dims, params)
        weights = output["token_weights"]
        kept = (weights > 0) & ~np.isin(sequence.input_ids, self._special_ids)
        ids, places = np.unique(sequence.input_ids[kept], return_inverse=True)
        largest = np.zeros(len(ids), np.float32)
        np.maximum.at(largest, places, weights[kept])
        return make_sparse(ids.astype(np.int32), largest, self._dims, params)
