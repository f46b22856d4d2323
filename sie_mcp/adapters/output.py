"""What one kind of vector is to the encode primitive, from the device to the answer."""

from collections.abc import Iterable
from collections.abc import Sequence as Series
from typing import Protocol

import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Sequence, SequenceOutput


class PictureReading(Protocol):
    """What makes a sequence of an image's file."""

    def sequence(self, data: bytes) -> Sequence:
        """Return what runs of it.

        Raises:
            InvalidImage: it cannot be read.
        """


class Output(Protocol):
    """One kind of vector: what `forward` computes on the device and what the caller gets.

    A kind that reads every item alike, and adds no tokens, is derived from this one.
    """

    name: wire.OutputType
    # Whose rows `result` reads.
    source: wire.OutputType

    def check(self, params: wire.EncodeParams) -> None:
        """Raise InvalidInput for parameters that this output cannot honour."""

    def max_length(self, *, is_query: bool) -> int | None:
        """Return this output's own limit, where it is lower than the model's."""
        return None

    def expand(self, sequence: Sequence, *, is_query: bool) -> Sequence:
        """Return the sequence with the tokens that this output adds."""
        return sequence

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Compute the rows of every sequence."""

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Dense | wire.Sparse | wire.Multivector:
        """Turn one sequence's rows into the vector; None: the item had no token."""

    def results(
        self,
        outputs: Series[SequenceOutput | None],
        sequences: Series[Sequence | None],
        params: wire.EncodeParams,
    ) -> Iterable[wire.Dense | wire.Sparse | wire.Multivector]:
        """Return what `result` does of each; all at once where that is faster."""
        return [
            self.result(output, sequence, params)
            for output, sequence in zip(outputs, sequences, strict=True)
        ]
