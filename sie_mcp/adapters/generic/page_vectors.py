"""Token vectors that the model itself has made unit length, as the caller gets them."""

import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Sequence, SequenceOutput
from sie_mcp.adapters.late_interaction import check_token_vectors, to_multivector
from sie_mcp.adapters.output import Output


class PageVectors(Output):
    """A vector for every token, prompts and those that a query is filled up with included."""

    name: wire.OutputType = "multivector"
    source: wire.OutputType = "multivector"

    def __init__(self, model: str, dims: int) -> None:
        self._model = model
        self.dims = dims

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse dimensions over the native ones, and packed or integer dtypes."""
        check_token_vectors(self._model, self.dims, params)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Nothing is left to do: the module's forward ends in these vectors."""
        raise AssertionError("the module makes the vectors")

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Multivector:
        """Cut dimensions (renormalised) and convert."""
        assert output is not None
        return to_multivector(output["multivector"], params)
