"""The score primitive by a head on pairs: query and item read together, a logit for each label.

Source: Nogueira & Cho 2019; which activation applies is decided by the recipe. The longer side of
a pair is cut first, as in sentence-transformers' CrossEncoder, so that no side is cut to nothing.
What all pairs of a request begin with is computed once where no token sees a later one.
"""

from collections.abc import Sequence as Series

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Rows, Sequence
from sie_mcp.adapters.labels import place_of
from sie_mcp.adapters.layers.pooling import pool
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.packing import share_prefix
from sie_mcp.adapters.probabilities import activate
from sie_mcp.adapters.results import (
    Reading,
    error_of,
    instructed,
    limit_length,
    refuse_truncation,
    text_of,
    to_sequence,
)
from sie_mcp.adapters.similarity import rank
from sie_mcp.adapters.widened import widened
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.wire import Request, Response

OUTPUTS = frozenset({"logits"})


class CrossEncoderAdapter:
    """Scores pairs, by the one label of its head or by one of several."""

    def __init__(self, loaded: Loaded) -> None:
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._recipe = loaded.recipe
        self._model = loaded.model
        # Another pooling reads what would be apart.
        self._shares = (
            bool(getattr(loaded.model.encoder, "is_causal", False))
            and loaded.recipe.pooling == ("lasttoken",)
            and not loaded.recipe.reads_tokens
        )

    def prepare(self, request: Request) -> Prepared:
        """Tokenise each (query, item) pair, the longer side cut first."""
        if not isinstance(request, wire.ScoreRequest):
            raise InvalidInput(f"{self.card.name} is a cross-encoder: it can score, nothing else")
        self._check(request.options)
        limit = limit_length(request.options.max_length, self._recipe.max_length)
        query = self._query(request)
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        sequences, readings = [], []
        for index, tokens in enumerate(self.tokenizer.encode_pairs(query, texts, limit)):
            refuse_truncation(
                f"items[{index}] with the query", limit, tokens, allowed=request.options.truncate
            )
            sequences.append(to_sequence(tokens, OUTPUTS))
            readings.append(Reading(index, len(tokens.ids), tokens.truncated))
        return Prepared(self._apart(sequences), readings)

    def _apart(self, sequences: list[Sequence]) -> list[Sequence]:
        """Set apart what all begin with, if each ends in a token that is read."""
        padding_id = self._recipe.config.get("pad_token_id")
        if not self._shares or any(
            one.token_type_ids is not None or one.input_ids[-1] == padding_id for one in sequences
        ):
            return sequences
        return share_prefix([one.input_ids for one in sequences], OUTPUTS)

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Return logits `(num_seqs, num_labels)` in float32."""
        return self.judge(self._model.states(batch), batch)

    def judge(self, hidden_states: torch.Tensor, batch: PackedBatch) -> Outputs:
        """Return what `forward` does, from the encoder's hidden states."""
        head = self._model.heads[self._recipe.tasks[0]]
        if self._recipe.reads_tokens:
            logits = pool(head(hidden_states), batch, self._recipe.pooling)
        else:
            # A row a sequence costs little, and rounded logits tie where scores are close.
            with widened():
                logits = head(self._pool(hidden_states, batch)).float()
        logits = logits[batch.num_prefixes :]
        return {"logits": Rows(logits, tuple(range(len(logits) + 1)))}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Apply the activation unless raw scores were asked for; rank."""
        assert isinstance(request, wire.ScoreRequest)
        raw = request.options.raw_scores
        is_probability = not raw and self._recipe.score_activation != "identity"
        label = self._label(request.options)
        known = self._values(outputs, raw=raw)
        scores = [
            self._score(item, reading, output, values, label)
            for item, reading, output, values in zip(
                request.items, prepared.notes, outputs, known, strict=True
            )
        ]
        return wire.ScoreResponse(
            model=self.card.name,
            query_id=request.query.id,
            scores=rank(scores),
            score_type="probability" if is_probability else "logit",
            usage=wire.Usage(input_tokens=prepared.num_tokens),
        )

    def values(self, logits: np.ndarray, *, raw: bool) -> np.ndarray:
        """Return a sequence's scores from its logits `(num_labels,)`, as they are if `raw`."""
        return activate(logits, "identity" if raw else self._recipe.score_activation)

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

    def _query(self, request: wire.ScoreRequest) -> str:
        if request.query.text is None:
            raise InvalidInput("query has no text; send {'text': '…'}")
        return instructed(request.query.text, request.instruction)

    def _check(self, options: wire.ScoreOptions) -> None:
        """Refuse options that would change nothing, and a label that is not there."""
        for name in ("weights", "score_mode"):
            if getattr(options, name) is not None:
                raise InvalidInput(
                    f"{self.card.name} reads both texts together: {name} is for models that "
                    "compare vectors; leave it out"
                )
        self._label(options)

    def _label(self, options: wire.ScoreOptions) -> int | None:
        """Return the place of the label to score by; None: the best."""
        labels = self._recipe.labels
        if options.label is not None:
            return place_of(options.label, labels, self.card.name)
        if self._recipe.score_label is None and not options.best_label:
            raise InvalidInput(
                f"{self.card.name} has {len(labels)} labels: say which one is the score "
                f"(options.label): {', '.join(labels)}"
            )
        return self._recipe.score_label

    def _values(self, outputs: list[Result], *, raw: bool) -> list[list[float] | None]:
        """Return each sequence's scores, one for each label; None: it has an error."""
        found: list[list[float] | None] = [None] * len(outputs)
        ran = [place for place, one in enumerate(outputs) if not isinstance(one, SieError)]
        if not ran:
            return found
        stacked = np.stack([one["logits"][0] for one in outputs if not isinstance(one, SieError)])
        are_finite = np.isfinite(stacked).all(axis=1)
        good = np.array(ran)[are_finite].tolist()
        values = self.values(stacked[are_finite], raw=raw).tolist()
        for place, own in zip(good, values, strict=True):
            found[place] = own
        return found

    def _score(
        self,
        item: wire.Item,
        reading: Reading,
        output: Result,
        values: list[float] | None,
        label: int | None,
    ) -> wire.Score:
        value = None
        if values is not None:
            value = max(values) if label is None else values[label]
        index = reading.sequence
        assert index is not None
        return wire.of_ours(
            wire.Score,
            {
                "item_id": item.id or f"item-{index}",
                "index": index,
                "score": value,
                "rank": 0,
                "label_scores": _by_label(self._recipe.labels, values),
                "num_tokens": reading.num_tokens,
                "truncated": reading.truncated,
                "error": None if values is not None else error_of(output),
            },
        )


def _by_label(labels: Series[str], values: list[float] | None) -> dict[str, float] | None:
    return None if values is None or len(values) == 1 else dict(zip(labels, values, strict=True))
