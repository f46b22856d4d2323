"""The extract primitive by labels that the caller names: GLiNER, long texts in windows of words."""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Outputs, PackedBatch, Prepared, Result
from sie_mcp.adapters.gliner.architecture import TASK
from sie_mcp.adapters.gliner.asking import Wanted, wanted
from sie_mcp.adapters.gliner.candidates import span_candidates, word_candidates
from sie_mcp.adapters.gliner.forward import GlinerForward
from sie_mcp.adapters.gliner.linking import LinkWish
from sie_mcp.adapters.gliner.pairs import Pairs
from sie_mcp.adapters.gliner.prompts import Prompt, PromptMaker
from sie_mcp.adapters.gliner.reading import Reading, join, spans_in_text
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.offsets import in_unit
from sie_mcp.adapters.options import refuse_others
from sie_mcp.adapters.results import error_of, text_of
from sie_mcp.adapters.span_decoding import Span, best_of_each, without_overlaps
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_tokens import WordTokens
from sie_mcp.adapters.word_windows import make_word_windows
from sie_mcp.adapters.words import WordSpan, split_words
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
        self._candidates = word_candidates if self._rule.is_token_level else span_candidates

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
        items = []
        for item, reading in zip(request.items, notes.readings, strict=True):
            last = reading.first_sequence + len(reading.windows) * len(notes.prompts)
            place = slice(reading.first_sequence, last)
            pairs = Pairs(notes.wanted.relations, _usual(options))
            found, error = self._spans(reading, notes, outputs[place], options, pairs)
            extracted = wire.ExtractedItem(
                id=item.id,
                entities=[_entity(reading.text, span) for span in found],
                relations=pairs.relations(reading.text, found),
                num_tokens=sum(one.num_tokens for one in prepared.sequences[place]),
                truncated=reading.read_to is not None,
                read_to=reading.read_to,
                error=error,
            )
            items.append(in_unit(extracted, reading.text, options.offset_unit))
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
        places = [split_words(text) for text in texts]
        tokens = self.tokenizer.read_words(
            [
                [text[start:end] for start, end in own]
                for text, own in zip(texts, places, strict=True)
            ]
        )
        room = max(self._room - max(len(prompt.ids) for prompt in prompts), 1)
        readings: list[Reading] = []
        num_sequences = 0
        for text, own, found in zip(texts, places, tokens, strict=True):
            # Of some characters a tokenizer makes nothing: nothing is lost with them.
            kept, which = found.kept(room)
            words = own if len(which) == len(own) else [own[one] for one in which]
            windows, read_to = self._windows(words, kept, room, windowing=windowing)
            readings.append(Reading(text, words, kept, windows, num_sequences, read_to))
            num_sequences += len(windows) * len(prompts)
        return readings

    def _windows(
        self, words: list[WordSpan], tokens: WordTokens, room: int, *, windowing: bool
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
        return windows[:1], words[windows[0].last - 1][1]

    def _thresholds(self, labels: list[str], options: wire.ExtractOptions) -> np.ndarray:
        """Return each label's threshold, `(num_labels,)`."""
        own = options.thresholds or {}
        if unknown := [label for label in own if label not in labels]:
            raise InvalidInput(f"thresholds names {unknown[0]!r}, which is not among the labels")
        return np.array([own.get(label, _usual(options)) for label in labels])

    def _spans(
        self,
        reading: Reading,
        notes: _Notes,
        outputs: list[Result],
        options: wire.ExtractOptions,
        pairs: Pairs,
    ) -> tuple[list[Span], wire.ItemError | None]:
        """Return the spans of a text; what links them is added to `pairs`."""
        thresholds = self._thresholds(notes.wanted.labels, options)
        found: list[Span] = []
        for place, output in enumerate(outputs):
            error = error_of(output)
            if isinstance(output, SieError) or error is not None:
                return [], error
            window = reading.windows[place // len(notes.prompts)]
            labels = notes.prompts[place % len(notes.prompts)].places
            own = thresholds[labels.start : labels.stop]
            logits = output["logits"]
            logits = (
                logits[:, : len(labels)]
                if self._rule.is_token_level
                else logits[..., : len(labels)]
            )
            named = notes.wanted.labels[labels.start : labels.stop]
            found += spans_in_text(reading, window, self._candidates(logits, own), named)
            pairs.add(output, reading.words[window.first : window.last])
        overlap, several = options.overlap or "flat", bool(options.multi_label)
        if len(reading.windows) > 1:
            found = best_of_each(found)
        return without_overlaps(found, overlap, multi_label=several), None


def _usual(options: wire.ExtractOptions) -> float:
    return DEFAULT_THRESHOLD if options.threshold is None else options.threshold


def _wish(prompt: Prompt, thresholds: np.ndarray, usual: float) -> LinkWish | None:
    if not prompt.relations:
        return None
    return LinkWish(prompt.relations, thresholds, usual)


def _entity(text: str, span: Span) -> wire.Entity:
    return wire.Entity(
        text=text[span.start : span.end],
        label=span.label,
        score=span.score,
        start=span.start,
        end=span.end,
    )
