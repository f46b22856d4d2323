"""One vector a token, for late interaction (ColBERT): projection, unit length, which tokens count.

Source: Khattab & Zaharia 2020; markers, expansion and skip list as in Stanford ColBERT and PyLate.
"""

from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Sequence, SequenceOutput
from sie_mcp.adapters.layers.maxsim import compared
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.output import Output
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InvalidInput, ModelLoadFailed

_MASKS = ("[MASK]", "<mask>")


class MultivectorOutput(Output):
    """Token vectors of `dims` numbers each."""

    name: wire.OutputType = "multivector"
    source: wire.OutputType = "multivector"

    def __init__(self, recipe: Recipe, model: Model, tokenizer: TextTokenizer, dims: int) -> None:
        self._recipe = recipe
        self._rule = recipe.multivector
        self._model = model
        self.dims = dims
        found = (tokenizer.id_of(word) for word in self._rule.skiplist_words)
        self._skipped_ids = np.array([one for one in found if one is not None], dtype=np.int64)
        self._expansion_id = self._find_expansion_id(tokenizer)

    def check(self, params: wire.EncodeParams) -> None:
        """Refuse dimensions over the native ones, and packed or integer dtypes."""
        check_token_vectors(self._recipe.name, self.dims, params)

    def max_length(self, *, is_query: bool) -> int | None:
        """Return the checkpoint's own query or document length."""
        return self._rule.query_length if is_query else self._rule.document_length

    def expand(self, sequence: Sequence, *, is_query: bool) -> Sequence:
        """Fill a query up to its length with mask tokens, where the checkpoint does so."""
        missing = self._rule.expand_queries_to - sequence.num_tokens
        if not is_query or missing <= 0:
            return sequence
        ids = np.concatenate([sequence.input_ids, np.full(missing, self._expansion_id)])
        seen = None if self._rule.attend_to_expansion else sequence.num_tokens
        return replace(sequence, input_ids=ids, token_type_ids=None, num_attended=seen)

    def forward(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Project and normalise every token; rows `(num_tokens, dims)`.

        An item that is compared with a query of this batch, or of an earlier one, has its score,
        "maxsim", instead.
        """
        x = hidden_states
        for projection, rule in zip(self._model.projections, self._recipe.projections, strict=True):
            if rule.input_name == "token_embeddings":
                x = projection(x)
        vectors = functional.normalize(x.float(), dim=-1)
        return compared(
            vectors,
            batch,
            batch.extras,
            hidden_states,
            kept=self._kept(batch),
            skipped=int(self._rule.drops_first),
        )

    def result(
        self, output: SequenceOutput | None, sequence: Sequence | None, params: wire.EncodeParams
    ) -> wire.Multivector:
        """Leave out skipped tokens of documents, cut dimensions (renormalised), convert."""
        values = np.zeros((0, self.dims), np.float32)
        if output is not None and sequence is not None:
            values = output["multivector"]
            ids = sequence.input_ids
            if self._rule.drops_first:
                values, ids = values[1:], ids[1:]
            if not params.options.is_query and len(self._skipped_ids):
                values = values[~np.isin(ids, self._skipped_ids)]
        return to_multivector(values, params)

    def _kept(self, batch: PackedBatch) -> torch.Tensor | None:
        """Return which tokens of documents count, bool `(num_tokens,)`; None: all."""
        if not self._rule.drops_first and not len(self._skipped_ids):
            return None
        ids = batch.input_ids
        skipped = torch.from_numpy(self._skipped_ids).to(ids.device, non_blocking=True)
        kept = (ids[:, None] != skipped).all(dim=1)
        return kept & (batch.position_ids > 0) if self._rule.drops_first else kept

    def _find_expansion_id(self, tokenizer: TextTokenizer) -> int:
        wanted = self._rule.expansion_token
        for token in (wanted,) if wanted else _MASKS:
            expansion_id = tokenizer.id_of(token)
            if expansion_id is not None:
                return expansion_id
        if self._rule.expand_queries_to:
            raise ModelLoadFailed(
                f"{self._recipe.name}: tokenizer.json has no {wanted or '[MASK]'!r}, "
                "with which queries are filled up"
            )
        return 0


def check_token_vectors(model: str, dims: int, params: wire.EncodeParams) -> None:
    """Refuse dimensions over the native ones, and packed or integer dtypes.

    Raises:
        InvalidInput: says what would work.
    """
    wanted = params.options.dimensions
    if wanted is not None and wanted > dims:
        raise InvalidInput(f"dimensions {wanted} is over {model}'s {dims}; ask for fewer")
    if params.output_dtype not in ("float32", "float16"):
        raise InvalidInput(
            f"output_dtype {params.output_dtype} does not apply to token vectors; "
            "use float32 or float16"
        )


def to_multivector(values: np.ndarray, params: wire.EncodeParams) -> wire.Multivector:
    """Cut the dimensions of unit vectors `(num_tokens, dims)`, renormalised, and convert."""
    dims = params.options.dimensions
    if dims is not None:
        values = values[:, :dims]
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        values = values / np.maximum(norms, 1e-12)
    return wire.Multivector(
        token_dims=values.shape[1],
        num_tokens=len(values),
        dtype=params.output_dtype,
        values=values.astype(params.output_dtype),
    )
