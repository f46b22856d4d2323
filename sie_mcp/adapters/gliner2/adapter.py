"""The extract primitive by a schema of the caller's own: GLiNER2, long texts in windows."""

import re
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import (
    Outputs,
    PackedBatch,
    Prepared,
    Result,
    Sequence,
)
from sie_mcp.adapters.gliner2.dealing import deal, merge
from sie_mcp.adapters.gliner2.decoding import WindowText
from sie_mcp.adapters.gliner2.findings import Findings, ReadWindow
from sie_mcp.adapters.gliner2.head import Layout
from sie_mcp.adapters.gliner2.prompts import Asked, Prompt, PromptMaker, Schema
from sie_mcp.adapters.gliner2.settings import MAX_WORDS, OVERLAP, Gliner2Settings
from sie_mcp.adapters.label_prompts import check_labels
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora_hooks import with_loras
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import error_of, text_of
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_windows import make_word_windows
from sie_mcp.adapters.words import WordSpan, split_words
from sie_mcp.errors import InputTooLong, InvalidInput, SieError
from sie_mcp.wire import Request, Response
from sie_mcp.wire_structure import Structure

_OUTPUTS = frozenset({"labels", "counts", "spans"})
_OPTIONS = ("threshold", "thresholds", "windowing", "overlap", "top_k", "structure")
DEFAULT_THRESHOLD = 0.5
# URLs, e-mails and @names stay whole.
_WORD = re.compile(
    r"https?://\S+|www\.\S+|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}|@[a-z0-9_]+"
    r"|\w+(?:[-_]\w+)*|\S",
    re.IGNORECASE,
)
_ENDS = (".", "!", "?")


@dataclass(frozen=True, slots=True)
class _Reading:
    """One item: what is read of it, its windows' places among the sequences, where it is cut."""

    text: str
    read_to: int | None
    places: slice
    windows: list[Window]
    words: list[WordSpan]


@dataclass(frozen=True, slots=True)
class _Notes:
    schema: Schema
    asked: list[Asked]
    readings: list[_Reading]


class Gliner2Adapter:
    """Finds what a schema asks for."""

    def __init__(self, loaded: Loaded) -> None:
        assert loaded.recipe.max_length is not None
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._settings = Gliner2Settings.of(loaded.recipe.config)
        self._limit = loaded.recipe.max_length
        self._model = loaded.model
        self._prompts = PromptMaker(self.card.name, loaded.tokenizer)

    def prepare(self, request: Request) -> Prepared:
        """Make prompts of the schema, and join each with each window of each item."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} extracts: it can extract, nothing else")
        refuse_others(request.params.options, _OPTIONS, self.card.name)
        schema = self._schema(request.params)
        asked = self._deal(schema)
        # One for the full stop that ends a window.
        room = self._limit - max(one.num_tokens for one in asked) - 1
        windowing = request.params.options.windowing
        sequences: list[Sequence] = []
        readings = []
        for index, item in enumerate(request.items):
            text = text_of(item, index)
            reading, pieces = self._read(
                text, len(sequences), room, len(asked), windowing=windowing
            )
            readings.append(reading)
            for window in reading.windows:
                own = [*pieces[window.first : window.last], *self._end(reading, window)]
                sequences += [_sequence(one.prompt, [*one.prefix, *own]) for one in asked]
        return Prepared(sequences, _Notes(schema, asked, readings))

    @with_loras
    def forward(self, batch: PackedBatch) -> Outputs:
        """Return "labels", "counts" and "spans"; see `Gliner2Head`."""
        outputs: Outputs = self._model.heads["structure"](self._model.states(batch), batch)
        return outputs

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Find what the schema asks for, window by window, and join windows and prompts."""
        assert isinstance(request, wire.ExtractRequest)
        notes, options = prepared.notes, request.params.options
        thresholds = self._thresholds(notes.schema, options)
        items = []
        for item, reading in zip(request.items, notes.readings, strict=True):
            parts = [Findings(one.schema, options, thresholds) for one in notes.asked]
            error = self._join(parts, reading, outputs[reading.places])
            extracted = (
                wire.ExtractedItem(error=error)
                if error
                else merge([one.item() for one in parts], notes.schema.structure, options.top_k)
            )
            extracted.id, extracted.read_to = item.id, reading.read_to
            extracted.truncated = reading.read_to is not None
            extracted.num_tokens = sum(one.num_tokens for one in prepared.sequences[reading.places])
            items.append(extracted)
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _schema(self, params: wire.ExtractParams) -> Schema:
        """Return what is asked for: a structure, or labels as entities."""
        structure = params.options.structure
        if structure is None:
            labels = check_labels(params.labels, self.card.name)
            structure = Structure.model_construct(entities=dict.fromkeys(labels, ""))
        elif params.labels is not None:
            raise InvalidInput("send labels or structure, not both")
        if params.instruction:
            raise InvalidInput(f"{self.card.name} takes no instruction; describe what to look for")
        schema = Schema.of(structure)
        self._thresholds(schema, params.options)
        return schema

    def _thresholds(self, schema: Schema, options: wire.ExtractOptions) -> dict[str, float]:
        """Return each entity label's threshold, and under "" that of everything else."""
        usual = DEFAULT_THRESHOLD if options.threshold is None else options.threshold
        known = schema.structure.entities
        own = options.thresholds or {}
        if unknown := [label for label in own if label not in known]:
            raise InvalidInput(f"thresholds names {unknown[0]!r}, which is not among the entities")
        return {"": usual, **{label: own.get(label, usual) for label in known}}

    def _deal(self, schema: Schema) -> list[Asked]:
        """Return the prompts: one where it leaves half of the room, else as many as are needed."""
        max_tokens = self._limit // 2
        dealt = deal(schema.structure, self._prompts.asked, max_tokens)
        for one in dealt:
            if one.num_tokens > max_tokens:
                raise InputTooLong(
                    f"{_named(one.schema)} has {one.num_tokens} tokens; {self.card.name} reads "
                    f"{self._limit} of schema and text together, and takes at most {max_tokens} of "
                    f"schema at once; {_advice(one.schema)}"
                )
        return dealt

    def _read(
        self, text: str, first_sequence: int, room: int, num_prompts: int, *, windowing: bool
    ) -> tuple[_Reading, list[list[int]]]:
        """Return what is read of a text, and its words' tokens."""
        words = split_words(text, _WORD)
        pieces = self._prompts.pieces([text[start:end].lower() for start, end in words])
        words = [word for word, ids in zip(words, pieces, strict=True) if ids]
        pieces = [ids[:room] for ids in pieces if ids]
        sizes = [len(ids) for ids in pieces]
        windows = make_word_windows(sizes, max_words=MAX_WORDS, max_tokens=room, overlap=OVERLAP)
        is_cut = not windowing and len(windows) > 1
        read_to = words[windows[0].last - 1][1] if is_cut else None
        windows = windows[:1] if is_cut else windows
        places = slice(first_sequence, first_sequence + len(windows) * num_prompts)
        return _Reading(text, read_to, places, windows, words), pieces

    def _end(self, reading: _Reading, window: Window) -> list[list[int]]:
        """Return the full stop that the model was trained to see at the end of a text."""
        whole = window.last - window.first == len(reading.words)
        seen = reading.text if whole else reading.text[: reading.words[window.last - 1][1]]
        return [] if seen.endswith(_ENDS) else self._prompts.pieces(["."])

    def _join(
        self, parts: list[Findings], reading: _Reading, outputs: list[Result]
    ) -> wire.ItemError | None:
        """Add each window's outputs, one a prompt, to what its prompt has found."""
        for place, output in enumerate(outputs):
            error = error_of(output)
            if isinstance(output, SieError) or error is not None:
                return error
            findings = parts[place % len(parts)]
            window = reading.windows[place // len(parts)]
            findings.add(self._window(reading, window, findings.num_prefix), output)
        return None

    def _window(self, reading: _Reading, window: Window, num_prefix: int) -> ReadWindow:
        own = reading.words[window.first : window.last]
        place = bisect_right(reading.windows, window.first, key=lambda one: one.first) - 1
        near = reading.windows[max(place - 1, 0) : place + 2]
        num_words = num_prefix + len(own) + len(self._end(reading, window))
        text = WindowText(reading.text, own, num_prefix)
        return ReadWindow(text, window, near, reading.words, num_words, self._settings.max_width)


def _sequence(prompt: Prompt, pieces: list[list[int]]) -> Sequence:
    """Join a prompt and words; a word is read at its first token."""
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    starts = len(prompt.ids) + np.cumsum(sizes) - sizes
    ids = np.array(prompt.ids + [one for piece in pieces for one in piece], dtype=np.int64)
    return Sequence(ids, outputs=_OUTPUTS, extra=Layout(prompt.tasks, starts))


def _named(schema: Schema) -> str:
    """Say what could not be parted further."""
    (part,) = schema.parts
    return f"the part {part.name!r} of the schema"


def _advice(schema: Schema) -> str:
    (part,) = schema.parts
    if part.kind == "labels" and len(part.fields) > 1:
        return (
            "its labels share one softmax, so they are not dealt out to several prompts; set "
            "multi_label, which judges each label alone, or send fewer labels"
        )
    return "ask for less at once, or shorten descriptions"
