"""From one window's scores to findings: entities, pairs, records and labels.

Source: runtime.py of the gliner2 package: a span counts from the threshold on, spans of one field
never overlap, the better one stays. Knows words and their places; knows no tokens and no model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sie_mcp.adapters.gliner2.prompts import Part, Schema
from sie_mcp.adapters.span_decoding import Overlap, Span, best_of_each, without_overlaps
from sie_mcp.adapters.words import WordSpan
from sie_mcp.wire import Relation
from sie_mcp.wire_structure import FieldSpec, FieldValue, Record


@dataclass(frozen=True, slots=True)
class WindowText:
    """What a window reads: the text, its words, and how many words of the schema stand before."""

    text: str
    words: Sequence[WordSpan]
    num_prefix: int


@dataclass(frozen=True, slots=True)
class Scored:
    """One part of a schema and its scores, `(count, num_fields, num_words, max_width)`."""

    part: Part
    scores: np.ndarray


def split_scores(
    schema: Schema, counts: np.ndarray, logits: np.ndarray, num_words: int, max_width: int
) -> list[Scored]:
    """Return the scores of each part that looks for spans and found something to count.

    Args:
        schema: What was asked.
        counts: int `(num_parts,)`, of parts but questions.
        logits: Flat; see `Gliner2Head.forward`.
        num_words: Of the window, those of the schema included.
        max_width: Of a span.
    """
    found = []
    first = 0
    parts = [part for part in schema.parts if part.kind != "labels"]
    for part, count in zip(parts, counts.tolist(), strict=True):
        number = min(count, 1) if part.kind == "entities" else count
        shape = (number, len(part.fields), num_words, max_width)
        size = int(np.prod(shape))
        if number:
            scores = _sigmoid(logits[first : first + size].reshape(shape))
            found.append(Scored(part, scores))
        first += size
    return found


def find_entities(
    scored: Scored, window: WindowText, thresholds: Mapping[str, float], overlap: Overlap
) -> list[Span]:
    """Return entities of all labels; those of one label overlap as `overlap` says."""
    found: list[Span] = []
    for place, label in enumerate(scored.part.fields):
        spans = _spans(scored.scores[0, place], window, thresholds[label], label)
        found += without_overlaps(spans, overlap)
    return found


def find_pairs(scored: Scored, window: WindowText, threshold: float) -> Iterator[Relation]:
    """Yield a relation's pairs, each scored as the less sure of its ends."""
    for one in scored.scores:
        heads = _spans(one[0], window, threshold, "head")
        tails = _spans(one[1], window, threshold, "tail")
        if heads and tails:
            head, tail = _best(heads), _best(tails)
            yield Relation(
                head=window.text[head.start : head.end],
                tail=window.text[tail.start : tail.end],
                relation=scored.part.name,
                score=min(head.score, tail.score),
                head_start=head.start,
                head_end=head.end,
                tail_start=tail.start,
                tail_end=tail.end,
            )


def find_records(
    scored: Scored, window: WindowText, schema: Schema, threshold: float
) -> Iterator[Record]:
    """Yield records in which at least one field has a value."""
    name = scored.part.name
    fields = next(one.fields for one in schema.structure.records if one.name == name)
    for one in scored.scores:
        values = {
            field.name: _values(
                one[place], field, window, schema.choices.get((name, field.name)), threshold
            )
            for place, field in enumerate(fields)
        }
        if any(values.values()):
            yield Record(name=name, fields=values)


def _values(
    scores: np.ndarray,
    field: FieldSpec,
    window: WindowText,
    choices: list[int] | None,
    threshold: float,
) -> list[FieldValue]:
    if choices is not None:
        chosen = zip(field.choices or (), scores[choices, 0].tolist(), strict=True)
        values = [FieldValue(text=text, score=score) for text, score in chosen]
        values = [one for one in values if one.score >= threshold]
        return values if field.is_list else sorted(values, key=lambda one: -one.score)[:1]
    spans = _spans(scores, window, threshold, field.name)
    kept = without_overlaps(spans, "flat") if field.is_list else [_best(spans)] if spans else []
    return [
        FieldValue(
            text=window.text[span.start : span.end],
            score=span.score,
            start=span.start,
            end=span.end,
        )
        for span in kept
    ]


def _best(spans: list[Span]) -> Span:
    return min(spans, key=lambda span: (-span.score, span.start, span.end))


def _spans(scores: np.ndarray, window: WindowText, threshold: float, label: str) -> list[Span]:
    """Return the spans of the text from a threshold on, each once.

    Args:
        scores: `(num_words, max_width)`, those of the schema's words first. A full stop that the
            model was given after the text is no word of it: a span that ends there ends before.
        window: The text and its words.
        threshold: The least score.
        label: What they are called.
    """
    own = scores[window.num_prefix :]
    firsts, widths = np.nonzero(own >= threshold)
    spans = []
    num_words = len(window.words)
    for first, width in zip(firsts.tolist(), widths.tolist(), strict=True):
        last = first + width
        if last >= len(own) or first >= num_words:
            continue
        place = (window.words[first][0], window.words[min(last, num_words - 1)][1])
        spans.append(Span(*place, label, float(own[first, width])))
    return best_of_each(spans)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    values: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(logits, -80.0, 80.0).astype(np.float64)))
    return values
