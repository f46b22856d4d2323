"""The extract primitive by labels on tokens: one tag a token, long texts in windows.

A word takes the tag of its first piece, and that tag's probability. Joining words to entities is
not known here.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import (
    Outputs,
    PackedBatch,
    Prepared,
    Result,
    Rows,
    Sequence,
    SequenceOutput,
)
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.offsets import in_unit
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import error_of, text_of
from sie_mcp.adapters.tags import OUTSIDE, Tag, Word, join_words, words_of
from sie_mcp.adapters.tokenizer import Tokens
from sie_mcp.adapters.windows import Window, make_windows, merge
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.wire import Request, Response

_OUTPUTS = frozenset({"tags"})
_OPTIONS = ("threshold", "windowing", "offset_unit")
DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class _Reading:
    """One item: the words of its whole text, and its windows' places among the sequences."""

    text: str
    words: list[Word]
    windows: list[Window]
    first_sequence: int
    read_to: int | None


class TokenClassificationAdapter:
    """Finds entities of the labels that the checkpoint was trained on."""

    def __init__(self, loaded: Loaded) -> None:
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._recipe = loaded.recipe
        self._model = loaded.model
        self._tags = [Tag.parse(label) for label in loaded.recipe.labels]
        self._known = {
            tag.label.casefold(): tag.label for tag in self._tags if tag.label != OUTSIDE
        }

    def prepare(self, request: Request) -> Prepared:
        """Tokenise each item whole and cut it into windows."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} finds entities: it can extract, nothing else")
        self._wanted(request.params.labels)
        refuse_others(request.params.options, _OPTIONS, self.card.name)
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        sequences: list[Sequence] = []
        readings = []
        for text, tokens in zip(texts, self._raw(texts), strict=True):
            readings.append(self._read(text, tokens, len(sequences), request.params.options))
            for window in readings[-1].windows:
                ids = self.tokenizer.with_special_tokens(tokens.ids[window.first : window.last])
                sequences.append(Sequence(ids, outputs=_OUTPUTS))
        return Prepared(sequences, readings)

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Return for every token its best tag and that tag's probability."""
        logits = self._model.heads["token_classification"](self._model.states(batch))
        scores, tags = torch.softmax(logits.float(), dim=-1).max(dim=-1)
        offsets = batch.offsets
        return {"tags": Rows(tags.to(torch.int32), offsets), "scores": Rows(scores, offsets)}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Join words into entities, window by window, and merge the windows."""
        assert isinstance(request, wire.ExtractRequest)
        wanted = self._wanted(request.params.labels)
        threshold = request.params.options.threshold
        threshold = DEFAULT_THRESHOLD if threshold is None else threshold
        items = []
        for item, reading in zip(request.items, prepared.notes, strict=True):
            last = reading.first_sequence + len(reading.windows)
            own = outputs[reading.first_sequence : last]
            found, error = self._entities(reading, own, wanted, threshold)
            num_tokens = sum(
                s.num_tokens for s in prepared.sequences[reading.first_sequence : last]
            )
            extracted = wire.ExtractedItem(
                id=item.id,
                entities=found,
                num_tokens=num_tokens,
                truncated=reading.read_to is not None,
                read_to=reading.read_to,
                error=error,
            )
            items.append(in_unit(extracted, reading.text, request.params.options.offset_unit))
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _raw(self, texts: list[str]) -> list[Tokens]:
        return self.tokenizer.encode(texts, None, special_tokens=False)

    def _read(
        self, text: str, tokens: Tokens, first_sequence: int, options: wire.ExtractOptions
    ) -> _Reading:
        limit = self._recipe.max_length
        room = len(tokens.ids) if limit is None else limit - self.tokenizer.num_added
        windows = make_windows(len(tokens.ids), max(room, 1)) if len(tokens.ids) else []
        words = words_of(tokens)
        read_to = None
        if not options.windowing and len(windows) > 1:
            # Reading stops between words, so that the rest of the text can be sent as it is.
            border = windows[0].last
            last = words[bisect_right(words, Word(border, len(text), 0)) - 1].first or border
            windows = [Window(0, last)]
            read_to = tokens.offsets[last - 1][1]
        return _Reading(text, words, windows, first_sequence, read_to)

    def _wanted(self, labels: list[str] | None) -> set[str] | None:
        """Return the labels asked for, as the checkpoint spells them; None is all."""
        if labels is None:
            return None
        unknown = [label for label in labels if label.casefold() not in self._known]
        if unknown:
            known = ", ".join(sorted(self._known.values()))
            raise InvalidInput(f"{self.card.name} does not know {unknown!r}; it finds: {known}")
        return {self._known[label.casefold()] for label in labels}

    def _entities(
        self,
        reading: _Reading,
        outputs: list[Result],
        wanted: set[str] | None,
        threshold: float,
    ) -> tuple[list[wire.Entity], wire.ItemError | None]:
        found: list[wire.Entity] = []
        for window, output in zip(reading.windows, outputs, strict=True):
            error = error_of(output)
            if isinstance(output, SieError) or error is not None:
                return [], error
            found += self._in_window(reading, window, output)
        # First the threshold: a long finding that fails it must not push out a short one.
        kept = [
            entity
            for entity in found
            if entity.score >= threshold and (wanted is None or entity.label in wanted)
        ]
        return merge(kept), None

    def _in_window(
        self, reading: _Reading, window: Window, output: SequenceOutput
    ) -> list[wire.Entity]:
        """Join the words that start in the window."""
        first = bisect_left(reading.words, Word(window.first, 0, 0))
        last = bisect_left(reading.words, Word(window.last, 0, 0))
        shift = self.tokenizer.num_before - window.first
        tags, scores = output["tags"], output["scores"]
        return join_words(
            reading.text,
            (
                (word, self._tags[int(tags[word.first + shift])], float(scores[word.first + shift]))
                for word in reading.words[first:last]
            ),
        )
