"""From the outputs of many texts to what was found in each: a few passes over all numbers at once.

A pass a text, or an object a candidate, costs more than all of the arithmetic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Result, SequenceOutput
from sie_mcp.adapters.gliner.candidates import (
    MAX_CANDIDATES,
    Candidates,
    joined,
    span_candidates_of,
    word_candidates_of,
)
from sie_mcp.adapters.gliner.choosing import Borders, best_of_each, without_overlaps
from sie_mcp.adapters.gliner.reading import Reading
from sie_mcp.adapters.results import all_finite, error_of
from sie_mcp.adapters.span_decoding import Overlap, Span
from sie_mcp.errors import SieError

# Candidates that are looked at together, of 28 bytes each, if all scores are over the threshold.
MAX_TOGETHER = 2**20


@dataclass(frozen=True, slots=True)
class Asked:
    """What all texts of a request are asked.

    Attributes:
        labels: All of them.
        places: The labels of each prompt.
        thresholds: float64 `(num_labels,)`.
        is_token_level: Words are judged, not spans.
        overlap: What may overlap what.
        multi_label: One place may have several labels.
    """

    labels: list[str]
    places: list[range]
    thresholds: np.ndarray
    is_token_level: bool
    overlap: Overlap
    multi_label: bool


def find_spans(
    readings: list[Reading], outputs: list[Result], asked: Asked
) -> list[tuple[list[Span], wire.ItemError | None]]:
    """Return what was found in each text, sorted by start, end and label, or why nothing was.

    Args:
        readings: One a text.
        outputs: A window's, one a prompt; then those of the next window.
        asked: Of all of them.
    """
    if all_finite(outputs):
        usable = [one for one in outputs if not isinstance(one, SieError)]
        return [(spans, None) for spans in _in_texts(readings, usable, asked)]
    first = readings[0].first_sequence
    found: list[tuple[list[Span], wire.ItemError | None]] = []
    for reading in readings:
        own = outputs[reading.first_sequence - first :][: len(reading.windows) * len(asked.places)]
        error = next((one for one in map(error_of, own) if one is not None), None)
        usable = [one for one in own if not isinstance(one, SieError)]
        found.append(([], error) if error else (_in_texts([reading], usable, asked)[0], None))
    return found


def together(readings: list[Reading], asked: Asked, max_width: int) -> Iterator[list[Reading]]:
    """Cut texts into parts of which all candidates together are not too many."""
    part: list[Reading] = []
    num_candidates = 0
    for reading in readings:
        most = _most(reading, asked, max_width)
        if part and num_candidates + most > MAX_TOGETHER:
            yield part
            part, num_candidates = [], 0
        part.append(reading)
        num_candidates += most
    if part:
        yield part


def _in_texts(
    readings: list[Reading], outputs: list[SequenceOutput], asked: Asked
) -> list[list[Span]]:
    if not any(reading.windows for reading in readings):
        return [[] for _ in readings]
    sizes = [len(reading.starts) for reading in readings]
    befores = (np.cumsum(sizes) - sizes).tolist()
    borders = Borders.of(
        [
            [(one.first + before, one.last + before) for one in reading.windows]
            for reading, before in zip(readings, befores, strict=True)
        ]
    )
    found = _candidates(outputs, borders, asked)
    if borders.any_beside:
        found = best_of_each(found)
    names = sorted(range(len(asked.labels)), key=asked.labels.__getitem__)
    ranks = np.argsort(names)
    starts = np.concatenate([reading.starts for reading in readings])
    ends = np.concatenate([reading.ends for reading in readings])
    lengths = ends[found.lasts - 1] - starts[found.firsts]
    kept = without_overlaps(found, ranks, lengths, asked.overlap, multi_label=asked.multi_label)
    rows = zip(
        starts[kept.firsts].tolist(),
        ends[kept.lasts - 1].tolist(),
        kept.labels.tolist(),
        kept.scores.tolist(),
        strict=True,
    )
    spans = [Span(start, end, asked.labels[label], score) for start, end, label, score in rows]
    borders_of_texts = np.searchsorted(kept.firsts, [0, *np.cumsum(sizes)]).tolist()
    return [spans[first:last] for first, last in pairwise(borders_of_texts)]


def _most(reading: Reading, asked: Asked, max_width: int) -> int:
    """Return how many candidates a text has at most."""
    most = 0
    for window in reading.windows:
        num_words = window.last - window.first
        width = (num_words + 1) // 2 if asked.is_token_level else max_width
        most += sum(min(num_words * width * len(one), MAX_CANDIDATES) for one in asked.places)
    return most


def _candidates(outputs: list[SequenceOutput], borders: Borders, asked: Asked) -> Candidates:
    """Return all candidates by their places among all words, a window's together and in order."""
    parts = []
    for at, places in enumerate(asked.places):
        own = [one["logits"] for one in outputs[at :: len(asked.places)]]
        thresholds = asked.thresholds[places.start : places.stop]
        # A batch has as many labels as the text that was asked for most.
        if asked.is_token_level:
            logits = [one[:, : len(places)] for one in own]
            found, windows = word_candidates_of(logits, thresholds)
        else:
            found, windows = span_candidates_of(
                [one[..., : len(places)] for one in own], thresholds
            )
        before = borders.own[windows, 0]
        moved = Candidates(
            found.firsts + before, found.lasts + before, found.labels + places.start, found.scores
        )
        if borders.any_beside:
            stays = borders.whole(moved, windows)
            moved, windows = moved.some(stays), windows[stays]
        parts.append((moved, windows))
    if len(parts) == 1:
        return parts[0][0]
    whole, _ = joined([found for found, _ in parts])
    return whole.some(np.argsort(np.concatenate([one for _, one in parts]), kind="stable"))
