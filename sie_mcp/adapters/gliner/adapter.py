"""The extract primitive by labels that the caller names: GLiNER, long texts in windows of words."""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result
from sie_mcp.adapters.gliner.architecture import TASK
from sie_mcp.adapters.gliner.asking import Wanted, wanted
from sie_mcp.adapters.gliner.finding import Asked, find_spans, together
from sie_mcp.adapters.gliner.forward import GlinerForward
from sie_mcp.adapters.gliner.linking import LinkWish
from sie_mcp.adapters.gliner.pairs import Pairs
from sie_mcp.adapters.gliner.prompts import Prompt, PromptMaker
from sie_mcp.adapters.gliner.reading import Reading, join
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.offsets import in_unit
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import text_of
from sie_mcp.adapters.span_decoding import Span
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_tokens import WordTokens
from sie_mcp.adapters.word_windows import make_word_windows
from sie_mcp.adapters.words import split_texts
from sie_mcp.errors import InvalidInput, ModelLoadFailed, SieError
from sie_mcp.wire import Request, Response

_OPTIONS = (
    *("threshold", "thresholds", "windowing", "overlap", "multi_label", "offset_unit"),
    "structure",
)
DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class _Notes:
    wanted: Wanted
    prompts: list[Prompt]
    readings: list[Reading]


class GlinerAdapter:
    """Finds entities of any labels."""

    def __init__(self, loaded: Loaded, label_tokenizer: TextTokenizer | None) -> None:
        assert loaded.recipe.gliner is not None and loaded.recipe.max_length is not None
        self.card, self.weights = loaded.card, loaded.weights
        self.tokenizer = loaded.tokenizer
        self._rule = loaded.recipe.gliner
        self._check_vocabulary(loaded.recipe.config["vocab_size"])
        self._room = loaded.recipe.max_length - loaded.tokenizer.num_added
        # A text never has less than half of the room, whatever the labels.
        self._prompts = PromptMaker(
            self.card.name, self._rule, loaded.tokenizer, self._room // 2, label_tokenizer
        )
        head = loaded.model.heads[TASK]
        self._forward = GlinerForward(loaded.model, head, self._rule)  # type: ignore[arg-type]

    def prepare(self, request: Request) -> Prepared:
        """Make prompts of the labels, cut each item into windows, and join each with each."""
        if not isinstance(request, wire.ExtractRequest):
            raise InvalidInput(f"{self.card.name} finds entities: it can extract, nothing else")
        options = request.params.options
        refuse_others(options, _OPTIONS, self.card.name)
        has_relations = self._rule.relations is not None
        named = wanted(request.params, self.card.name, has_relations=has_relations)
        thresholds = self._thresholds(named.labels, options)
        prompts = self._prompts.prompts(*named)
        wishes = [_wish(prompt, thresholds, _usual(options)) for prompt in prompts]
        texts = [text_of(item, index) for index, item in enumerate(request.items)]
        readings = self._read(texts, prompts, windowing=options.windowing)
        sequences = [
            join(prompt, tokens, wish, self.tokenizer, self._rule.subtoken_pooling)
            for reading in readings
            for window in reading.windows
            for tokens in [reading.tokens.part(window.first, window.last)]
            for prompt, wish in zip(prompts, wishes, strict=True)
        ]
        return Prepared(sequences, _Notes(named, prompts, readings))

    def forward(self, batch: PackedBatch) -> Outputs:
        """Return "logits": a row a word, of spans by width and label, or of label and part."""
        return self._forward(batch)

    def finish(self, request: Request, prepared: Prepared, outputs: list[Result]) -> Response:
        """Find what is over the thresholds, merge windows and prompts, and settle overlaps."""
        assert isinstance(request, wire.ExtractRequest)
        options, notes = request.params.options, prepared.notes
        asked = Asked(
            notes.wanted.labels,
            [prompt.places for prompt in notes.prompts],
            self._thresholds(notes.wanted.labels, options),
            self._rule.is_token_level,
            options.overlap or "flat",
            bool(options.multi_label),
        )
        items: list[wire.ExtractedItem] = []
        for part in together(notes.readings, asked, self._rule.max_width):
            first = part[0].first_sequence
            last = part[-1].first_sequence + len(part[-1].windows) * len(notes.prompts)
            for reading, found in zip(
                part, find_spans(part, outputs[first:last], asked), strict=True
            ):
                own = slice(
                    reading.first_sequence,
                    reading.first_sequence + len(reading.windows) * len(notes.prompts),
                )
                tokens = sum(one.num_tokens for one in prepared.sequences[own])
                item = _item(reading, found, outputs[own], notes, options)
                item.id, item.num_tokens = request.items[len(items)].id, tokens
                items.append(in_unit(item, reading.text, options.offset_unit))
        usage = wire.Usage(input_tokens=prepared.num_tokens)
        return wire.ExtractResponse(model=self.card.name, items=items, usage=usage)

    def _check_vocabulary(self, num_rows: int) -> None:
        """Refuse a tokenizer whose ids are not those of the word table."""
        num_tokens = max(self.tokenizer.vocabulary.values()) + 1
        fits = num_tokens == num_rows if self._rule.added_tokens else num_tokens <= num_rows
        if not fits:
            raise ModelLoadFailed(
                f"{self.card.name}: its tokenizer has {num_tokens} tokens with those of GLiNER, "
                f"its word table {num_rows} rows; it needs the tokenizer it was trained with"
            )

    def _read(self, texts: list[str], prompts: list[Prompt], *, windowing: bool) -> list[Reading]:
        """Return what is read of texts; all are tokenised at once."""
        split = split_texts(texts)
        tokens = self.tokenizer.read_words([own.words for own in split])
        room = max(self._room - max(len(prompt.ids) for prompt in prompts), 1)
        readings: list[Reading] = []
        num_sequences = 0
        for text, own, found in zip(texts, split, tokens, strict=True):
            # Of some characters a tokenizer makes nothing: nothing is lost with them.
            kept, which = found.kept(room)
            starts, ends = own.starts, own.ends
            if len(which) < len(starts):
                starts, ends = starts[which], ends[which]
            windows, read_to = self._windows(ends, kept, room, windowing=windowing)
            readings.append(Reading(text, starts, ends, kept, windows, num_sequences, read_to))
            num_sequences += len(windows) * len(prompts)
        return readings

    def _windows(
        self, ends: np.ndarray, tokens: WordTokens, room: int, *, windowing: bool
    ) -> tuple[list[Window], int | None]:
        """Return a text's windows, and where reading stops."""
        windows = make_word_windows(
            tokens.sizes,
            max_words=self._rule.max_words,
            max_tokens=room,
            overlap=self._rule.overlap,
        )
        if windowing or len(windows) <= 1:
            return windows, None
        return windows[:1], int(ends[windows[0].last - 1])

    def _thresholds(self, labels: list[str], options: wire.ExtractOptions) -> np.ndarray:
        """Return each label's threshold, `(num_labels,)`."""
        own = options.thresholds or {}
        if unknown := [label for label in own if label not in labels]:
            raise InvalidInput(f"thresholds names {unknown[0]!r}, which is not among the labels")
        return np.array([own.get(label, _usual(options)) for label in labels])


def _usual(options: wire.ExtractOptions) -> float:
    return DEFAULT_THRESHOLD if options.threshold is None else options.threshold


def _wish(prompt: Prompt, thresholds: np.ndarray, usual: float) -> LinkWish | None:
    if not prompt.relations:
        return None
    return LinkWish(prompt.relations, thresholds, usual)


def _item(
    reading: Reading,
    found: tuple[list[Span], wire.ItemError | None],
    outputs: list[Result],
    notes: _Notes,
    options: wire.ExtractOptions,
) -> wire.ExtractedItem:
    """Return what was found in a text, and what links it."""
    spans, error = found
    relations: list[wire.Relation] = []
    if notes.wanted.relations and error is None:
        pairs = Pairs(notes.wanted.relations, _usual(options))
        words = reading.words
        for place, output in enumerate(outputs):
            assert not isinstance(output, SieError)
            window = reading.windows[place // len(notes.prompts)]
            pairs.add(output, words[window.first : window.last])
        relations = pairs.relations(reading.text, spans)
    fields = {
        "entities": [_entity(reading.text, span) for span in spans],
        "relations": relations,
        "classifications": [],
        "records": [],
        "objects": [],
        "truncated": reading.read_to is not None,
        "read_to": reading.read_to,
        "error": error,
    }
    return wire.of_ours(wire.ExtractedItem, fields)


def _entity(text: str, span: Span) -> wire.Entity:
    fields = {
        "text": text[span.start : span.end],
        "label": span.label,
        "score": span.score,
        "start": span.start,
        "end": span.end,
    }
    return wire.of_ours(wire.Entity, fields)
