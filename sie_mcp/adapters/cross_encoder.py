"""The score primitive by a cross-encoder: query and item read together, one logit a pair.

Source: Nogueira & Cho 2019; which activation applies is decided by the recipe, in the order of
sentence-transformers' CrossEncoder. Activations run in float32: in bfloat16 close scores tie.
"""

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Rows, Sequence
from sie_mcp.adapters.layers.pooling import pool
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.results import (
    Reading,
    error_of,
    limit_length,
    refuse_truncation,
    text_of,
)
from sie_mcp.adapters.similarity import rank
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.wire import Request, Response

_OUTPUTS = frozenset({"logits"})


class CrossEncoderAdapter:
    """Scores pairs."""

    def __init__(
        self, recipe: Recipe, model: Model, tokenizer: TextTokenizer, card: wire.ModelCard
    ) -> None:
        self.card = card
        self._recipe = recipe
        self._model = model
        self._tokenizer = tokenizer

    def prepare(self, request: Request) -> Prepared:
        """Tokenise each (query, item) pair, the longer side cut first."""
        if not isinstance(request, wire.ScoreRequest):
            raise InvalidInput(f"{self.card.name} is a cross-encoder: it can score, nothing else")
        limit = limit_length(request.options.max_length, self._recipe.max_length)
        query = self._with_prompt(request)
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        sequences, readings = [], []
        for index, tokens in enumerate(self._tokenizer.encode_pairs(query, texts, limit)):
            refuse_truncation(index, limit, tokens.truncated, request.options.truncate)
            type_ids = tokens.type_ids if tokens.type_ids.any() else None
            sequences.append(Sequence(tokens.ids, type_ids, _OUTPUTS))
            readings.append(Reading(index, len(tokens.ids), tokens.truncated))
        return Prepared(sequences, readings)

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return logits `(num_seqs, num_labels)` in float32."""
        hidden_states = self._model.encoder(batch)
        head = self._model.heads["cross_encoder"]
        if self._recipe.reads_tokens:
            logits = pool(head(hidden_states), batch, self._recipe.pooling)
        else:
            logits = head(self._pool(hidden_states, batch)).float()
        return {"logits": Rows(logits, tuple(range(batch.num_seqs + 1)))}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Apply the activation unless raw scores were asked for; rank."""
        assert isinstance(request, wire.ScoreRequest)
        raw = request.options.raw_scores
        is_probability = not raw and self._recipe.score_activation != "identity"
        scores = [
            self._score(item, index, reading, output, raw=raw)
            for index, (item, reading, output) in enumerate(
                zip(request.items, prepared.notes, outputs, strict=True)
            )
        ]
        return wire.ScoreResponse(
            model=self.card.name,
            query_id=request.query.id,
            scores=rank(scores),
            score_type="probability" if is_probability else "logit",
            usage=wire.Usage(input_tokens=prepared.num_tokens),
        )

    def _pool(self, hidden_states: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return what the head reads, `(num_seqs, hidden_size)`."""
        if self._recipe.pooling == ("cls",):
            return hidden_states[batch.cu_seqlens[:-1].long()]
        kept = None
        padding_id = self._recipe.config.get("pad_token_id")
        if self._recipe.pooling == ("lasttoken",) and padding_id is not None:
            # The reference takes such tokens for padding, even where they end a text.
            kept = batch.input_ids != padding_id
        return pool(hidden_states, batch, self._recipe.pooling, kept).to(hidden_states.dtype)

    def _with_prompt(self, request: wire.ScoreRequest) -> str:
        text = request.query.text
        if text is None:
            raise InvalidInput("query has no text; send {'text': '…'}")
        return f"{request.instruction} {text}" if request.instruction else text

    def _score(
        self,
        item: wire.Item,
        index: int,
        reading: Reading,
        output: Result,
        *,
        raw: bool,
    ) -> wire.Score:
        error = error_of(output)
        value = None
        if not isinstance(output, SieError) and error is None:
            logit = float(output["logits"][0, 0])
            value = logit if raw else self._activate(logit)
        return wire.Score(
            item_id=item.id or f"item-{index}",
            index=index,
            score=value,
            rank=0,
            num_tokens=reading.num_tokens,
            truncated=reading.truncated,
            error=error,
        )

    def _activate(self, logit: float) -> float:
        if self._recipe.score_activation == "identity":
            return logit
        return float(torch.sigmoid(torch.tensor(np.float32(logit), dtype=torch.float64)))
