"""Where personal data stands in a text: joined into regions that do not overlap."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

# What may stand between two parts of one name, or of one address.
_BETWEEN = {
    "PERSON": re.compile(r"[ \t]{1,2}|[ \t]?-[ \t]?"),
    "ADDRESS": re.compile(r"[ \t]{0,2}[,;]?[ \t\n]{0,2}"),
}


@dataclass(frozen=True, slots=True)
class PiiSpan:
    """One finding, [start, end) in code points. What is found `by_pattern` is certain."""

    start: int
    end: int
    kind: str
    score: float = 1.0
    by_pattern: bool = True


def join_spans(text: str, spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """Return regions in order: overlapping findings become one, parts of a name or address too.

    A region covers all that was found in it. Its kind is that of the pattern, else of the longest
    finding.
    """
    joined: list[PiiSpan] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if joined and span.start < joined[-1].end:
            joined[-1] = _union(joined[-1], span)
        elif joined and _belong_together(text, joined[-1], span):
            joined[-1] = replace(joined[-1], end=span.end, score=min(joined[-1].score, span.score))
        else:
            joined.append(span)
    return joined


def _union(one: PiiSpan, other: PiiSpan) -> PiiSpan:
    first = min((one, other), key=lambda span: (not span.by_pattern, span.start - span.end))
    return replace(first, start=min(one.start, other.start), end=max(one.end, other.end))


def _belong_together(text: str, one: PiiSpan, other: PiiSpan) -> bool:
    between = _BETWEEN.get(one.kind)
    if between is None or one.kind != other.kind or one.by_pattern or other.by_pattern:
        return False
    return between.fullmatch(text[one.end : other.start]) is not None
