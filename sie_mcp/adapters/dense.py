"""One vector an item: pooling, projections, truncation, normalisation, output dtype."""

from collections.abc import Iterator
from collections.abc import Sequence as Series

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Rows, Sequence, SequenceOutput
from sie_mcp.adapters.layers.pooling import pool
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.quantize import check_ranges, convert
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.text_frame import TextFrame
from sie_mcp.errors import InvalidInput

_TINY = 1e-12


class DenseOutput(Output):
    """Vectors of `dims` numbers."""

    name: wire.OutputType = "dense"
    source: wire.OutputType = "dense"

    def __init__(
        self, recipe: Recipe, model: Model, dims: int, frame: TextFrame | None = None
    ) -> None:
        self._recipe = recipe
        self._model = model
        self._dims = dims
        self._frame = frame

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse more dimensions than there are, and ranges that do not fit them."""
        wanted = params.options.dimensions
        if wanted is not None and wanted > self._dims:
            raise InvalidInput(
                f"dimensions {wanted} is over {self._recipe.name}'s {self._dims}; ask for fewer"
            )
        check_ranges(params, wanted or self._recipe.truncate_dim or self._dims)

    def expand(self, sequence: Sequence, *, is_query: bool) -> Sequence:
        """Bring the sequence into the form that a two-tower model reads."""
        return sequence if self._frame is None else self._frame.fit(sequence)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Pool and project; rows `(num_seqs, dims)`, not yet normalised.

        Of images the tower has made vectors already.
        """
        x = hidden_states.float() if batch.images else self._pooled(hidden_states, batch)
        for projection, rule in zip(self._model.projections, self._recipe.projections, strict=True):
            if rule.input_name == "sentence_embedding":
                x = projection(x.to(hidden_states.dtype)).float()
        return {"dense": Rows(x, tuple(range(batch.num_seqs + 1)))}

    def _pooled(self, hidden_states: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        x = pool(hidden_states, batch, self._recipe.pooling, _kept(batch))
        if "dense" not in self._model.heads:
            return x
        head: torch.Tensor = self._model.heads["dense"](x.to(hidden_states.dtype))
        return head.float()

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Dense:
        """Cut to the asked dimensions, normalise, convert. No token: the zero vector."""
        (vector,) = self.results([output], [sequence], params)
        return vector

    def results(
        self,
        outputs: Series[SequenceOutput | None],
        sequences: Series[Sequence | None],
        params: wire.EncodeParams,
    ) -> Iterator[wire.Dense]:
        """Return what `result` does of each, to the bit at 8,192 numbers or fewer of a row."""
        if not outputs:
            return iter(())
        zero = np.zeros((1, self._dims), np.float32)
        dims = params.options.dimensions or self._recipe.truncate_dim
        # Not views of what whole batches were copied into.
        vectors = np.concatenate(
            [zero[:, :dims] if one is None else one["dense"][:, :dims] for one in outputs]
        )
        normalize = params.options.normalize
        if self._recipe.normalize if normalize is None else normalize:
            sizes = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            vectors = vectors / np.maximum(sizes, _TINY)[:, None]
        return (convert(one, params) for one in vectors.astype(np.float32, copy=False))


def _kept(batch: PackedBatch) -> torch.Tensor | None:
    if batch.prompt_lengths is None:
        return None
    device = batch.input_ids.device
    skipped = torch.tensor(batch.prompt_lengths).to(device, non_blocking=True)
    return batch.position_ids >= skipped[batch.segments]
