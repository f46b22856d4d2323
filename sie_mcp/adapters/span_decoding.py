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
    kept = _Nested(multi_label) if overlap == "nested" else _Apart(multi_label)
    for span in sorted(spans, key=_longest_first if overlap == "longest" else _best_first):
        if kept.allows(span):
            kept.add(span)
    return _sorted(kept.spans)


class _Apart:
    """Spans that were kept, none of which overlap: each place of the text is taken or not."""

    def __init__(self, multi_label: bool) -> None:
        self.spans: list[Span] = []
        self._multi_label = multi_label
        self._kept: set[tuple[int, int]] = set()
        self._taken = bytearray()

    def allows(self, span: Span) -> bool:
        """Whether nothing kept is in the way of a span."""
        if (span.start, span.end) in self._kept:
            return self._multi_label
        return self._taken.find(1, span.start, span.end) < 0

    def add(self, span: Span) -> None:
        """Keep a span."""
        self.spans.append(span)
        self._kept.add((span.start, span.end))
        if span.end > len(self._taken):
            self._taken.extend(bytes(span.end - len(self._taken)))
        self._taken[span.start : span.end] = b"\x01" * (span.end - span.start)


class _Nested:
    """Spans that were kept, none of which cross, in order of their start."""

    def __init__(self, multi_label: bool) -> None:
        self.spans: list[Span] = []
        self._multi_label = multi_label
        self._longest = 0

    def allows(self, span: Span) -> bool:
        """Whether nothing kept is in the way of a span; only near ones are looked at."""
        first = bisect_left(self.spans, span.start - self._longest, key=_start)
        last = bisect_left(self.spans, span.end, key=_start)
        return not any(self._are_rivals(span, other) for other in self.spans[first:last])

    def add(self, span: Span) -> None:
        """Keep a span."""
        insort(self.spans, span, key=_start)
        self._longest = max(self._longest, span.end - span.start)

    def _are_rivals(self, one: Span, other: Span) -> bool:
        if (one.start, one.end) == (other.start, other.end):
            return not self._multi_label
        return _cross(one, other)


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _cross(one: Span, other: Span) -> bool:
    return _overlap(one, other) and not (_contains(one, other) or _contains(other, one))


def _contains(one: Span, other: Span) -> bool:
    return one.start <= other.start and other.end <= one.end


def _start(span: Span) -> int:
    return span.start


def _best_first(span: Span) -> tuple[float, int, int]:
    return (-span.score, span.start, span.end)


def _longest_first(span: Span) -> tuple[int, float, int]:
    return (span.start - span.end, -span.score, span.start)


def _sorted(spans: Iterable[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.start, span.end, span.label))
