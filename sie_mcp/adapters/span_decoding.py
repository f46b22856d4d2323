"""From scored spans to findings: thresholds, duplicates, and what may overlap what.

Knows spans; knows no text, no tokens and no model. Ends are exclusive.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

# "flat": no two overlap. "nested": one may lie inside another, none cross. Both keep the better
# score; "longest" keeps the longer span, then the better score, and none overlap. "all": anything.
Overlap = Literal["flat", "nested", "longest", "all"]


@dataclass(frozen=True, slots=True)
class Span:
    """A candidate: where it stands, what it is called and how sure that is."""

    start: int
    end: int
    label: str
    score: float


def over_thresholds(
    spans: Iterable[Span], threshold: float, by_label: Mapping[str, float] | None = None
) -> list[Span]:
    """Keep spans whose score is over the threshold, that of their label if it has its own.

    A score equal to the threshold is not over it.
    """
    own = by_label or {}
    return [span for span in spans if span.score > own.get(span.label, threshold)]


def best_of_each(spans: Iterable[Span]) -> list[Span]:
    """Keep the best of each (start, end, label), as overlapping windows find some twice."""
    best: dict[tuple[int, int, str], Span] = {}
    for span in spans:
        key = (span.start, span.end, span.label)
        if key not in best or span.score > best[key].score:
            best[key] = span
    return list(best.values())


def without_overlaps(
    spans: Iterable[Span], overlap: Overlap = "flat", *, multi_label: bool = False
) -> list[Span]:
    """Choose among spans; return those kept, sorted by start, end and label.

    Ties keep the span that starts first, then the shorter, then the one given first.

    Args:
        spans: Candidates, at most one of each (start, end, label).
        overlap: What may overlap what.
        multi_label: One span may have several labels.
    """
    if overlap == "all":
        return _sorted(spans)
    ordered = sorted(spans, key=_longest_first if overlap == "longest" else _best_first)
    # The first of a place decides for all of them: what is in its way stays in theirs.
    firsts: dict[tuple[int, int], Span] = {}
    for span in ordered:
        firsts.setdefault((span.start, span.end), span)
    places = list(firsts)
    kept = {places[at] for at in kept_places(places, overlap)}
    if multi_label:
        return _sorted(span for span in ordered if (span.start, span.end) in kept)
    return _sorted(firsts[place] for place in kept)


def kept_places(places: Iterable[tuple[int, int]], overlap: Overlap) -> list[int]:
    """Return which places stay, in order: each that no kept one before it is in the way of.

    Args:
        places: Starts and ends, all different, the most wanted first.
        overlap: What may overlap what; not "all".
    """
    return _nested(places) if overlap == "nested" else _apart(places)


def _apart(places: Iterable[tuple[int, int]]) -> list[int]:
    """Keep what overlaps nothing: each unit of the text is taken or not."""
    kept: list[int] = []
    taken = bytearray()
    for at, (start, end) in enumerate(places):
        if taken.find(1, start, end) >= 0:
            continue
        kept.append(at)
        if end > len(taken):
            # Twice as long each time: appending costs what was appended.
            taken.extend(bytes(max(end - len(taken), len(taken))))
        taken[start:end] = b"\x01" * (end - start)
    return kept


def _nested(places: Iterable[tuple[int, int]]) -> list[int]:
    """Keep what crosses nothing; only what is near is looked at."""
    kept: list[int] = []
    spans: list[tuple[int, int]] = []
    longest = 0
    for at, (start, end) in enumerate(places):
        first = bisect_left(spans, (start - longest, 0))
        last = bisect_left(spans, (end, 0))
        if any(_cross(start, end, *other) for other in spans[first:last]):
            continue
        kept.append(at)
        insort(spans, (start, end))
        longest = max(longest, end - start)
    return kept


def _cross(start: int, end: int, other_start: int, other_end: int) -> bool:
    return start < other_start < end < other_end or other_start < start < other_end < end


def _best_first(span: Span) -> tuple[float, int, int]:
    return (-span.score, span.start, span.end)


def _longest_first(span: Span) -> tuple[int, float, int]:
    return (span.start - span.end, -span.score, span.start)


def _sorted(spans: Iterable[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.start, span.end, span.label))
