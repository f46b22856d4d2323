"""The extract primitive for relations between entities that the caller gives: GLiREL."""

from dataclasses import dataclass

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result, Rows, Sequence
from sie_mcp.adapters.glirel.architecture import TASK
from sie_mcp.adapters.glirel.asking import MAX_ENTITIES, given_spans, wanted_relations
from sie_mcp.adapters.glirel.found import Found
from sie_mcp.adapters.glirel.prompts import PromptMaker
from sie_mcp.adapters.glirel.reading import OUTPUT, Joiner, Part, Place, Prompt, words_of
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import error_of
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_windows import make_word_windows
from sie_mcp.adapters.words import split_words
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed, SieError
from sie_mcp.wire import Request, Response

_OPTIONS = ("structure", "threshold", "top_k")
DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class _Reading:
    """One item: its windows in order, and its first sequence; a window has one a prompt."""

    text: str
    parts: list[Part]
    first_sequence: int


@dataclass(frozen=True, slots=True)
class _Notes:
    relations: list[str]
    prompts: list[Prompt]
    readings: list[_Reading]


class GlirelAdapter:
    """Says which relations hold between given entities."""

    def __init__(self, loaded: Loaded) -> None:
        assert loaded.recipe.glirel is not None and loaded.recipe.max_length is not None
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._model, self._rule = loaded.model, loaded.recipe.glirel
        self._head = loaded.model.heads[TASK]
        num_rows = loaded.recipe.config["vocab_size"]
        num_tokens = max(self.tokenizer.vocabulary.values()) + 1
        if num_tokens != num_rows:
            raise ModelLoadFailed(
                f"{self.card.name}: its tokenizer has {num_tokens} tokens with those of GLiREL, "
                f"its word table {num_rows} rows; it needs the tokenizer it was trained with"
            )
        self._room = loaded.recipe.max_length - loaded.tokenizer.num_added
        # A text never has less than half of the room, whatever the relations.
        self._prompts = PromptMaker(self.card.name, loaded.tokenizer, self._room // 2)
        self._joiner = Joiner(self._rule, loaded.tokenizer)

    def prepare(self, request: Request) -> Prepared:
        """Make prompts of the relations, cut each item into windows, and join each with each."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} finds relations: it can extract, nothing else")
        refuse_others(request.params.options, _OPTIONS, self.card.name)
        relations = wanted_relations(request.params, self.card.name)
        prompts = self._prompts.prompts(relations)
        sequences: list[Sequence] = []
        readings = []
        for index, item in enumerate(request.items):
            text, spans = given_spans(item, index, marks=self._rule.marks_entities)
            first = len(sequences)
            parts = self._read(text, spans, prompts, sequences, f"items[{index}]")
            readings.append(_Reading(text, parts, first))
        return Prepared(sequences, _Notes(relations, prompts, readings))

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return "links": for each sequence a row a pair, float32 logits by relation."""
        hidden_states = self._model.states(batch)
        logits = [
            self._head(hidden_states[first:], layout)
            for layout, first in zip(batch.extras, batch.offsets, strict=False)
        ]
        width = max(one.shape[1] for one in logits)
        padded = [torch.nn.functional.pad(one, (0, width - one.shape[1])) for one in logits]
        offsets = (0, *np.cumsum([len(one) for one in logits]).tolist())
        return {OUTPUT: Rows(torch.cat(padded), offsets)}

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Find what is over the threshold, and merge windows and prompts."""
        assert isinstance(request, wire.ExtractRequest)
        options, notes = request.params.options, prepared.notes
        threshold = DEFAULT_THRESHOLD if options.threshold is None else options.threshold
        items = []
        for item, reading in zip(request.items, notes.readings, strict=True):
            last = reading.first_sequence + len(reading.parts) * len(notes.prompts)
            place = slice(reading.first_sequence, last)
            found = Found(notes.relations, threshold, options.top_k)
            error = _add(found, reading, notes.prompts, outputs[place])
            items.append(
                wire.ExtractedItem(
                    id=item.id,
                    relations=[] if error else found.relations(reading.text),
                    num_tokens=sum(one.num_tokens for one in prepared.sequences[place]),
                    error=error,
                )
            )
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _read(
        self,
        text: str,
        spans: list[Place],
        prompts: list[Prompt],
        sequences: list[Sequence],
        where: str,
    ) -> list[Part]:
        """Add a text's sequences, those of windows with two entities, and return these windows."""
        every = split_words(text)
        tokens = self.tokenizer.read_words([[text[start:end] for start, end in every]])[0]
        most = max(sum(len(one) for one in prompt.pieces) for prompt in prompts)
        room = max(self._room - most, 4)
        # A word is cut so that it fits with the marks of an entity beside it.
        kept, which = tokens.kept(room - 3)
        words = [every[one] for one in which]
        places = words_of(spans, words, where)
        pieces = kept.pieces()
        parts = []
        for window in self._windows(kept.sizes, list(places.values()), room):
            inside = {span: place for span, place in places.items() if _holds(window, place)}
            if len(inside) < 2:
                continue
            if len(inside) > MAX_ENTITIES:
                raise InputTooLong(
                    f"{where} has {len(inside)} spans within {self._rule.max_words} words; "
                    f"{self.card.name} links {MAX_ENTITIES} at once, send fewer"
                )
            own = pieces[window.first : window.last]
            near = [(first - window.first, last - window.first) for first, last in inside.values()]
            pairs = np.zeros((0, 2), dtype=np.int64)
            for prompt in prompts:
                sequence, pairs = self._joiner.join(prompt, own, near)
                sequences.append(sequence)
            parts.append(Part(window, list(inside), pairs))
        return parts

    def _windows(self, sizes: np.ndarray, places: list[Place], room: int) -> list[Window]:
        """Cut a text so that words fit with the marks of entities between them."""
        sizes = sizes.copy()
        if self._rule.marks_entities:
            for first, last in places:
                sizes[first] += 1
                sizes[last] += 1
        most = self._rule.max_words
        return make_word_windows(sizes, max_words=most, max_tokens=room, overlap=most // 4)


def _holds(window: Window, place: Place) -> bool:
    return window.first <= place[0] and place[1] < window.last


def _add(
    found: Found, reading: _Reading, prompts: list[Prompt], outputs: list[Result]
) -> wire.ItemError | None:
    for place, output in enumerate(outputs):
        error = error_of(output)
        if isinstance(output, SieError) or error is not None:
            return error
        part, prompt = reading.parts[place // len(prompts)], prompts[place % len(prompts)]
        found.add(part, prompt.places, output[OUTPUT])
    return None
