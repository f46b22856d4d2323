"""The extract primitive by a head that keeps or prunes a document's tokens for a query.

Query and document are read together, as for a score: one forward pass gives both. A long document
is read in windows, each beside the whole query. Source: Chirkova et al. 2025 (Provence).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import (
    Outputs,
    PackedBatch,
    Prepared,
    Result,
    Rows,
    Sequence,
)
from sie_mcp.adapters.cross_encoder import CrossEncoderAdapter
from sie_mcp.adapters.kept import LABELS, sentence_spans, token_spans
from sie_mcp.adapters.labels import place_of
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import error_of, text_of
from sie_mcp.adapters.tokenizer import Tokens
from sie_mcp.adapters.windows import Window, make_windows, shares
from sie_mcp.catalogue.entries import Profile
from sie_mcp.errors import InputTooLong, InvalidInput, SieError
from sie_mcp.wire import Request, Response

RELEVANCE = "relevance"
_OUTPUTS = frozenset({"logits", "keep"})
_OPTIONS = ("threshold", "highlight_threshold", "profile", "unit", "windowing")
_SPANS = {"token": token_spans, "sentence": sentence_spans}


@dataclass(frozen=True, slots=True)
class _Reading:
    """One document: its tokens, and its windows' places among the sequences."""

    tokens: Tokens
    windows: list[Window]
    first_sequence: int
    num_before: int
    read_to: int | None

    @property
    def places(self) -> slice:
        return slice(self.first_sequence, self.first_sequence + len(self.windows))


class PruningAdapter:
    """Prunes documents for a query; scores pairs as the cross-encoder that it stands on."""

    def __init__(self, loaded: Loaded) -> None:
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._recipe = loaded.recipe
        self._model = loaded.model
        self._frame = loaded.tokenizer.pair_frame
        self._pairs = CrossEncoderAdapter(loaded)
        layers = zip(loaded.model.projections, loaded.recipe.projections, strict=True)
        self._head = [layer for layer, one in layers if one.input_name == "keep_logits"]

    def prepare(self, request: Request) -> Prepared:
        """Tokenise query and documents, and cut these into windows."""
        if isinstance(request, wire.ScoreRequest):
            return self._pairs.prepare(request)
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} prunes: it can extract and score, not encode")
        self._wanted(request.params.labels)
        self._profile(request.params.options)
        query = self._query(request.params)
        room = self._room(query)
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        sequences: list[Sequence] = []
        readings = []
        for tokens in self.tokenizer.encode(texts, None, special_tokens=False):
            reading = self._read(tokens, room, len(sequences), len(query), request.params.options)
            for window in reading.windows:
                ids, types = self._frame.around(query, tokens.ids[window.first : window.last])
                sequences.append(Sequence(ids, types, _OUTPUTS))
            readings.append(reading)
        return Prepared(sequences, readings)

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Return logits `(num_seqs, num_labels)` and each token's probability, both float32."""
        encoder: Any = self._model.encoder  # A module's methods are unknown to torch's types.
        if self._recipe.reads_before_norm:
            hidden_states = encoder.before_norm(batch)
            outputs = self._pairs.judge(encoder.final_norm(hidden_states), batch)
        else:
            hidden_states = encoder(batch)
            outputs = self._pairs.judge(hidden_states, batch)
        if "keep" in batch.outputs:
            outputs["keep"] = Rows(self._keep(hidden_states), batch.offsets)
        return outputs

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Label spans; the relevance is that of a document's best window."""
        if isinstance(request, wire.ScoreRequest):
            return self._pairs.finish(request, prepared, outputs)
        assert isinstance(request, wire.ExtractRequest)
        items = []
        for index, (item, reading) in enumerate(zip(request.items, prepared.notes, strict=True)):
            found = self._item(text_of(item, index), reading, outputs, request.params)
            sequences = prepared.sequences[reading.places]
            found.id, found.num_tokens = item.id, sum(one.num_tokens for one in sequences)
            items.append(found)
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _query(self, params: wire.ExtractParams) -> np.ndarray:
        """Return the query's ids, which stand in every window whole."""
        query = (params.instruction or "").strip()
        if not query:
            raise InvalidInput(f"{self.card.name} prunes for a query: send it as instruction")
        return self.tokenizer.encode([query], None, special_tokens=False)[0].ids

    def _room(self, query: np.ndarray) -> int | None:
        """Return how many tokens of a document stand beside the query; None: no limit."""
        limit = self._recipe.max_length
        if limit is None:
            return None
        if len(query) > limit // 2:
            raise InputTooLong(
                f"instruction has {len(query)} tokens; {self.card.name} reads {limit} of query "
                f"and document together, and takes a query of at most {limit // 2}; shorten it"
            )
        return max(limit - self._frame.num_added - len(query), 1)

    def _read(
        self,
        tokens: Tokens,
        room: int | None,
        first_sequence: int,
        num_query: int,
        options: wire.ExtractOptions,
    ) -> _Reading:
        num_tokens = len(tokens.ids)
        windows = make_windows(num_tokens, room or num_tokens) if num_tokens else []
        read_to = None
        if not options.windowing and len(windows) > 1:
            windows = windows[:1]
            read_to = tokens.offsets[windows[0].last - 1][1]
        num_before = self._frame.num_leading + num_query
        return _Reading(tokens, windows, first_sequence, num_before, read_to)

    def _keep(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return the probability that each token is kept, float32 `(num_tokens,)`."""
        logits = hidden_states
        for layer in self._head:
            logits = layer(logits)
        logits = logits.float()
        if logits.shape[-1] == 1:
            return torch.sigmoid(logits[:, 0])
        return torch.softmax(logits, dim=-1)[:, 1]

    def _item(
        self, text: str, reading: _Reading, outputs: list[Result], params: wire.ExtractParams
    ) -> wire.ExtractedItem:
        cut = {"truncated": reading.read_to is not None, "read_to": reading.read_to}
        keep, logits = [], []
        own = outputs[reading.places]
        for window, share, output in zip(
            reading.windows, shares(reading.windows), own, strict=True
        ):
            error = error_of(output)
            if isinstance(output, SieError) or error is not None:
                return wire.ExtractedItem(error=error, **cut)
            shift = reading.num_before - window.first
            keep.append(output["keep"][share.first + shift : share.last + shift])
            logits.append(output["logits"][0])
        if not keep:
            return wire.ExtractedItem(**cut)
        probabilities = np.concatenate(keep)
        spans = _SPANS[params.options.unit or self._recipe.unit]
        found = spans(
            text[: reading.read_to],
            reading.tokens.offsets[: len(probabilities)],
            probabilities,
            self._profile(params.options),
        )
        wanted = self._wanted(params.labels)
        score = self._pairs.values(max(logits, key=lambda one: float(one[0])), raw=False)
        return wire.ExtractedItem(
            entities=[one for one in found if one.label in wanted],
            classifications=[wire.Classification(label=RELEVANCE, score=float(score[0]))],
            **cut,
        )

    def _wanted(self, labels: list[str] | None) -> set[str]:
        """Return which kinds of spans were asked for."""
        if labels is None:
            return set(LABELS)
        return {LABELS[place_of(label, LABELS, self.card.name)] for label in labels}

    def _profile(self, options: wire.ExtractOptions) -> Profile:
        """Return the thresholds: the caller's, else those of the profile."""
        refuse_others(options, _OPTIONS, self.card.name)
        profiles = self._recipe.profiles
        name = options.profile or "default"
        if name not in profiles:
            raise InvalidInput(
                f"{self.card.name} has no profile {name!r}; it has: {', '.join(profiles)}"
            )
        threshold, highlight = options.threshold, options.highlight_threshold
        if threshold is None:
            threshold = profiles[name].threshold
        if highlight is not None and highlight < threshold:
            raise InvalidInput(
                f"highlight_threshold {highlight} is under the threshold of what is kept, "
                f"{threshold}; send at least that, or a lower threshold"
            )
        if highlight is None and (highlight := profiles[name].highlight_threshold) is not None:
            highlight = max(highlight, threshold)
        return Profile(threshold=threshold, highlight_threshold=highlight)
