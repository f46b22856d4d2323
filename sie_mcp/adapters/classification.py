"""The extract primitive by a head on whole texts: labels and how sure the model is of each.

A model of natural language inference also takes labels of the caller's own (`zero_shot`). Pairs
are scored as by a cross-encoder.
"""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Sequence
from sie_mcp.adapters.cross_encoder import OUTPUTS, CrossEncoderAdapter
from sie_mcp.adapters.ids_only import TokenIds
from sie_mcp.adapters.labels import best_first, place_of
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import error_of, instructed, text_of, to_sequence
from sie_mcp.adapters.zero_shot import TEMPLATE, candidate_scores, hypotheses
from sie_mcp.errors import InputTooLong, InvalidInput, SieError
from sie_mcp.wire import Request, Response

# Every label of the caller's own is a sequence for every text.
MAX_PAIRS = 20_000
_OPTIONS = ("threshold", "top_k", "raw_scores")
_ZERO_SHOT_OPTIONS = (*_OPTIONS, "multi_label", "hypothesis_template")


@dataclass(frozen=True, slots=True)
class _Reading:
    """One item: its places among the sequences, and whether any of them was cut."""

    first: int
    last: int
    truncated: bool


class ClassificationAdapter:
    """Classifies texts; scores pairs by one of its labels."""

    def __init__(self, loaded: Loaded) -> None:
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._recipe = loaded.recipe
        self._pairs = CrossEncoderAdapter(loaded)

    def prepare(self, request: Request) -> Prepared:
        """Tokenise the texts, each with every candidate label where the labels are the caller's."""
        if isinstance(request, wire.ScoreRequest):
            return self._pairs.prepare(request)
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} classifies: it can extract and score, not encode")
        params = request.params
        self._check(params, len(request.items))
        texts = [
            instructed(text_of(item, index), params.instruction)
            for index, item in enumerate(request.items)
        ]
        sequences: list[Sequence] = []
        readings = []
        for tokens in self._tokenise(texts, params):
            first = len(sequences)
            sequences += [to_sequence(one, OUTPUTS) for one in tokens]
            is_cut = any(one.truncated for one in tokens)
            readings.append(_Reading(first, len(sequences), is_cut))
        return Prepared(sequences, readings)

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return logits `(num_seqs, num_labels)` in float32."""
        return self._pairs.forward(batch)

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Turn logits into labels, the surest first."""
        if isinstance(request, wire.ScoreRequest):
            return self._pairs.finish(request, prepared, outputs)
        assert isinstance(request, wire.ExtractRequest)
        items = []
        for item, reading in zip(request.items, prepared.notes, strict=True):
            sequences = prepared.sequences[reading.first : reading.last]
            found, error = self._classify(outputs[reading.first : reading.last], request.params)
            items.append(
                wire.ExtractedItem(
                    id=item.id,
                    classifications=found,
                    num_tokens=sum(one.num_tokens for one in sequences),
                    truncated=reading.truncated,
                    error=error,
                )
            )
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _candidates(self, params: wire.ExtractParams) -> list[str] | None:
        """Return the caller's own labels, each once; None where the head's are asked for."""
        if params.labels is None or self._recipe.entailment_label is None:
            return None
        return list(dict.fromkeys(params.labels))

    def _check(self, params: wire.ExtractParams, num_items: int) -> None:
        """Refuse labels and options that cannot be honoured, before anything runs."""
        candidates = self._candidates(params)
        if params.options.raw_scores and params.options.threshold is not None:
            raise InvalidInput("threshold is for probabilities, raw_scores asks for logits")
        if candidates is None:
            refuse_others(params.options, _OPTIONS, f"{self.card.name} with its own labels")
            self._wanted(params)
            return
        refuse_others(params.options, _ZERO_SHOT_OPTIONS, self.card.name)
        if num_items * len(candidates) > MAX_PAIRS:
            raise InvalidInput(
                f"{num_items} items with {len(candidates)} labels each are over the limit of "
                f"{MAX_PAIRS:,} pairs; send fewer at once"
            )
        if self._is_each_alone(params, candidates) and self._recipe.contradiction_label is None:
            raise InvalidInput(
                f"{self.card.name} has no contradiction label, which multi_label and a single "
                f"label need; send several labels without multi_label"
            )

    def _tokenise(self, texts: list[str], params: wire.ExtractParams) -> list[list[TokenIds]]:
        """Return the sequences of each text."""
        limit = self._recipe.max_length
        candidates = self._candidates(params)
        if candidates is None:
            return [[one] for one in self.tokenizer.encode_ids(texts, limit)]
        sentences = hypotheses(candidates, params.options.hypothesis_template or TEMPLATE)
        for label, sentence in zip(candidates, sentences, strict=True):
            if self.tokenizer.room_beside(sentence, limit) == 0:
                raise InputTooLong(
                    f"label {label!r} leaves no room for a text: its hypothesis has "
                    f"{self.tokenizer.count(sentence)} tokens and {self.card.name} reads {limit} "
                    "in all; shorten the label or hypothesis_template"
                )
        return [
            self.tokenizer.encode_pairs(text, sentences, limit, keep_seconds=True) for text in texts
        ]

    def _classify(
        self, outputs: list[Result], params: wire.ExtractParams
    ) -> tuple[list[wire.Classification], wire.ItemError | None]:
        logits = []
        for output in outputs:
            error = error_of(output)
            if isinstance(output, SieError) or error is not None:
                return [], error
            logits.append(output["logits"][0])
        scores = self._scores(np.stack(logits), params)
        return best_first(scores, params.options.threshold, params.options.top_k), None

    def _scores(self, logits: np.ndarray, params: wire.ExtractParams) -> list[tuple[str, float]]:
        """Return labels and their scores from logits `(num_sequences, num_labels)`."""
        raw = params.options.raw_scores
        candidates = self._candidates(params)
        if candidates is None:
            values = self._pairs.values(logits[0], raw=raw).tolist()
            return [(self._recipe.labels[place], values[place]) for place in self._wanted(params)]
        entailment, contradiction = self._recipe.entailment_label, self._recipe.contradiction_label
        is_each_alone = self._is_each_alone(params, candidates)
        values = candidate_scores(
            logits[:, entailment],
            logits[:, contradiction] if is_each_alone else None,
            raw=raw,
        )
        return list(zip(candidates, values.tolist(), strict=True))

    def _wanted(self, params: wire.ExtractParams) -> list[int]:
        """Return the places of the head's labels that were asked for."""
        labels = self._recipe.labels
        if params.labels is None:
            return list(range(len(labels)))
        wanted = (place_of(label, labels, self.card.name) for label in params.labels)
        return list(dict.fromkeys(wanted))

    def _is_each_alone(self, params: wire.ExtractParams, candidates: list[str]) -> bool:
        return bool(params.options.multi_label) or len(candidates) == 1
