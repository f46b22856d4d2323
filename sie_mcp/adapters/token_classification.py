"""The extract primitive by labels on tokens: BIO, BILOU or plain tags to entities with offsets.

A word, as the tokenizer splits them, takes the tag of its first piece and that piece's probability; neighbouring words of one label join where the scheme says so. An entity's score is
the mean over its words. Offsets are code points of the caller's own string.
"""

from dataclasses import dataclass

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
    SequenceOutput,
)
from sie_mcp.adapters.model import Model
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.results import error_of, text_of
from sie_mcp.adapters.tokenizer import TextTokenizer, Tokens
from sie_mcp.adapters.windows import Window, make_windows, merge
from sie_mcp.errors import InvalidInput, SieError
from sie_mcp.wire import Request, Response

_OUTPUTS = frozenset({"tags"})
_OUTSIDE = "O"
DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class _Reading:
    """One item: the tokens of its whole text, and its windows' places among the sequences."""

    text: str
    offsets: list[tuple[int, int]]
    words: list[int | None]
    windows: list[Window]
    first_sequence: int
    read_to: int | None


@dataclass(slots=True)
class _Run:
    """An entity being built: words of one label."""

    label: str
    start: int
    end: int
    scores: list[float]


class TokenClassificationAdapter:
    """Finds entities of the labels that the checkpoint was trained on."""

    def __init__(
        self, recipe: Recipe, model: Model, tokenizer: TextTokenizer, card: wire.ModelCard
    ) -> None:
        self.card = card
        self._recipe = recipe
        self._model = model
        self._tokenizer = tokenizer
        self._tags = [split_tag(label) for label in recipe.labels]
        self._known = {label.casefold(): label for _, label in self._tags if label != _OUTSIDE}

    def prepare(self, request: Request) -> Prepared:
        """Tokenise each item whole and cut it into windows."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} finds entities: it can extract, nothing else")
        self._wanted(request.params.labels)
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        sequences: list[Sequence] = []
        readings = []
        for text, tokens in zip(texts, self._raw(texts), strict=True):
            readings.append(self._read(text, tokens, len(sequences), request.params.options))
            for window in readings[-1].windows:
                ids = self._tokenizer.with_special_tokens(tokens.ids[window.first : window.last])
                sequences.append(Sequence(ids, outputs=_OUTPUTS))
        return Prepared(sequences, readings)

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return for every token its best tag and that tag's probability."""
        logits = self._model.heads["token_classification"](self._model.encoder(batch))
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
            items.append(
                wire.ExtractedItem(
                    id=item.id,
                    entities=found,
                    num_tokens=num_tokens,
                    truncated=reading.read_to is not None,
                    read_to=reading.read_to,
                    error=error,
                )
            )
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _raw(self, texts: list[str]) -> list[Tokens]:
        return self._tokenizer.encode(texts, None, special_tokens=False)

    def _read(
        self, text: str, tokens: Tokens, first_sequence: int, options: wire.ExtractOptions
    ) -> _Reading:
        limit = self._recipe.max_length
        room = len(tokens.ids) if limit is None else limit - self._tokenizer.num_added
        windows = make_windows(len(tokens.ids), max(room, 1)) if len(tokens.ids) else []
        read_to = None
        if not options.windowing and len(windows) > 1:
            windows = windows[:1]
            read_to = tokens.offsets[windows[0].last - 1][1]
        return _Reading(text, tokens.offsets, tokens.words, windows, first_sequence, read_to)

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
        kept = [
            entity
            for entity in merge(found)
            if entity.score >= threshold and (wanted is None or entity.label in wanted)
        ]
        return kept, None

    def _in_window(
        self, reading: _Reading, window: Window, output: SequenceOutput
    ) -> list[wire.Entity]:
        """Walk over the window's words and join those of one entity."""
        offsets = reading.offsets[window.first : window.last]
        shift = self._tokenizer.num_before
        tags = output["tags"][shift : shift + len(offsets)]
        scores = output["scores"][shift : shift + len(offsets)]
        runs: list[_Run] = []
        is_open = False
        for first, last in word_spans(reading.words[window.first : window.last]):
            position, label = self._tags[int(tags[first])]
            if label == _OUTSIDE:
                is_open = False
                continue
            start, end = offsets[first][0], offsets[last][1]
            same = bool(runs) and runs[-1].label == label
            # Words without a gap are one entity ("a@b.com"), whatever their tags say.
            touches = same and start == runs[-1].end
            joins = touches or (same and is_open and position not in ("B", "S", "U"))
            if not joins:
                runs.append(_Run(label, start, end, []))
            runs[-1].end = end
            runs[-1].scores.append(float(scores[first]))
            is_open = position not in ("E", "L", "S", "U")
        return [_entity(reading.text, run) for run in runs]


def split_tag(tag: str) -> tuple[str, str]:
    """Split "B-PERSON" into ("B", "PERSON"); a plain tag has the position ""."""
    position, dash, label = tag.partition("-")
    if dash and position in ("B", "I", "L", "O", "U", "E", "S"):
        return position, label
    return "", tag


def word_spans(word_ids: list[int | None]) -> list[tuple[int, int]]:
    """Return each word's first and last piece."""
    found: list[tuple[int, int]] = []
    for index, word in enumerate(word_ids):
        if found and word is not None and word == word_ids[index - 1]:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return found


def _entity(text: str, run: _Run) -> wire.Entity:
    start, end = run.start, run.end
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    score = float(np.mean(run.scores))
    return wire.Entity(text=text[start:end], label=run.label, score=score, start=start, end=end)
