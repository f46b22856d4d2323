"""What all windows of one text found, joined: every finding once, questions answered once."""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import SequenceOutput
from sie_mcp.adapters.gliner2.decoding import (
    WindowText,
    find_entities,
    find_pairs,
    find_records,
    split_scores,
)
from sie_mcp.adapters.gliner2.prompts import Schema
from sie_mcp.adapters.probabilities import activate
from sie_mcp.adapters.span_decoding import Span, best_of_each, without_overlaps
from sie_mcp.adapters.windows import Window
from sie_mcp.adapters.word_windows import is_cut
from sie_mcp.adapters.words import WordSpan
from sie_mcp.wire_structure import LabelsSpec, Record


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """A window and those beside it.

    Attributes:
        text: What it reads.
        window: Its words among those of the text.
        near: It and the windows beside it.
        words: All words of the text.
        num_words: What the model read: words of the schema, of the text, and a full stop.
        max_width: Words of a span.
    """

    text: WindowText
    window: Window
    near: list[Window]
    words: list[WordSpan]
    num_words: int
    max_width: int


class Findings:
    """Collects windows; then says what the text holds."""

    def __init__(
        self, schema: Schema, options: wire.ExtractOptions, thresholds: dict[str, float]
    ) -> None:
        self._schema, self._options, self._thresholds = schema, options, thresholds
        self._overlap = options.overlap or "flat"
        self._entities: list[Span] = []
        self._pairs: dict[tuple[object, ...], wire.Relation] = {}
        self._records: dict[str, Record] = {}
        self._answers: list[np.ndarray] = []
        self._text = ""

    @property
    def num_prefix(self) -> int:
        """Words of the schema before each window."""
        return len(self._schema.prefix)

    def add(self, window: ReadWindow, output: SequenceOutput) -> None:
        """Add what a window found."""
        self._text = window.text.text
        self._answers.append(output["labels"])
        found = split_scores(
            self._schema, output["counts"], output["spans"], window.num_words, window.max_width
        )
        usual = self._thresholds[""]
        for scored in found:
            if scored.part.kind == "entities":
                spans = find_entities(scored, window.text, self._thresholds, self._overlap)
                self._entities += [span for span in spans if not _is_cut(span, window)]
            elif scored.part.kind == "relation":
                for pair in find_pairs(scored, window.text, usual):
                    self._add_pair(pair)
            else:
                for record in find_records(scored, window.text, self._schema, usual):
                    key = record.model_dump_json(
                        exclude={"fields": {"__all__": {"__all__": {"score"}}}}
                    )
                    self._records.setdefault(key, record)

    def item(self) -> wire.ExtractedItem:
        """Return all findings of a text."""
        return wire.ExtractedItem(
            entities=self._all_entities(),
            relations=list(self._pairs.values()),
            records=list(self._records.values()),
            classifications=self._classifications(),
        )

    def _add_pair(self, pair: wire.Relation) -> None:
        key = (pair.relation, pair.head_start, pair.head_end, pair.tail_start, pair.tail_end)
        if key not in self._pairs or pair.score > self._pairs[key].score:
            self._pairs[key] = pair

    def _all_entities(self) -> list[wire.Entity]:
        spans: list[Span] = []
        for label in self._schema.structure.entities:
            own = best_of_each(span for span in self._entities if span.label == label)
            spans += without_overlaps(own, self._overlap)
        return [
            wire.Entity(
                text=self._text[span.start : span.end],
                label=span.label,
                score=span.score,
                start=span.start,
                end=span.end,
            )
            for span in sorted(spans, key=lambda one: (one.start, one.end, one.label))
        ]

    def _classifications(self) -> list[wire.Classification]:
        """Answer each question: the mean over windows, of labels each alone the best window."""
        if not self._answers:
            return []
        answers = np.stack(self._answers)
        found: list[wire.Classification] = []
        first = 0
        for question in self._schema.structure.classifications:
            own = answers[:, first : first + len(question.labels)]
            first += len(question.labels)
            found += self._answer(question, own)
        return found

    def _answer(self, question: LabelsSpec, logits: np.ndarray) -> list[wire.Classification]:
        if question.multi_label:
            scores = activate(logits, "sigmoid").max(axis=0)
        else:
            scores = activate(logits, "softmax").mean(axis=0)
        best = sorted(zip(question.labels, scores.tolist(), strict=True), key=lambda pair: -pair[1])
        return [
            wire.Classification(label=label, score=score, task=question.name)
            for label, score in best[: self._options.top_k]
        ]


def _is_cut(span: Span, window: ReadWindow) -> bool:
    """Whether another window may see more of an entity."""
    starts = {start: place for place, (start, _) in enumerate(window.text.words)}
    ends = {end: place for place, (_, end) in enumerate(window.text.words)}
    first = window.window.first + starts[span.start]
    last = window.window.first + ends[span.end] + 1
    return is_cut(window.window, first, last, window.near)
