"""Which of overlapping spans stay."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sie_mcp.adapters.span_decoding import Span, best_of_each, over_thresholds, without_overlaps

JOHN = [
    Span(11, 15, "name", 0.8),
    Span(33, 37, "name", 0.7),
    Span(33, 41, "name", 0.6),
    Span(38, 47, "name", 0.65),
]
SPANS = st.lists(
    st.builds(
        lambda start, width, label, score: Span(start, start + width, label, score / 8),
        st.integers(0, 12),
        st.integers(1, 5),
        st.sampled_from("ab"),
        st.integers(0, 8),
    ),
    max_size=12,
).map(best_of_each)


def _places(spans: list[Span]) -> list[tuple[int, int]]:
    return [(span.start, span.end) for span in spans]


@pytest.mark.parametrize(
    ("mode", "given", "expected"),
    [
        ("flat", JOHN, [(11, 15), (33, 37), (38, 47)]),
        ("nested", JOHN, [(11, 15), (33, 37), (38, 47)]),
        ("nested", JOHN[:3], [(11, 15), (33, 37), (33, 41)]),
        ("longest", JOHN, [(11, 15), (33, 37), (38, 47)]),
        ("longest", JOHN[:3], [(11, 15), (33, 41)]),
        ("all", JOHN, [(11, 15), (33, 37), (33, 41), (38, 47)]),
    ],
)
def test_every_mode_keeps_what_it_says(mode, given, expected) -> None:
    """Case T58, whatever the order that they come in."""
    for order in itertools.permutations(given):
        assert _places(without_overlaps(order, mode)) == expected


def test_ends_are_exclusive() -> None:
    """Case T58."""
    spans = [Span(33, 37, "a", 0.5), Span(37, 40, "a", 0.9)]
    assert without_overlaps(spans) == spans


def test_a_score_equal_to_the_threshold_is_not_over_it() -> None:
    """Case T58."""
    spans = [Span(0, 1, "a", 0.5), Span(2, 3, "b", 0.5), Span(4, 5, "a", 0.51)]
    assert over_thresholds(spans, 0.5) == spans[2:]
    assert over_thresholds(spans, 0.5, {"b": 0.4}) == spans[1:]
    assert over_thresholds(spans, 0.0, {"a": 0.6}) == spans[1:2]


def test_one_span_has_one_label_unless_several_are_asked_for() -> None:
    spans = [Span(0, 4, "city", 0.9), Span(0, 4, "place", 0.8), Span(2, 5, "name", 0.7)]
    assert without_overlaps(spans) == spans[:1]
    assert without_overlaps(spans, multi_label=True) == spans[:2]
    assert without_overlaps(spans, "nested", multi_label=True) == spans[:2]


def test_windows_that_find_one_span_leave_its_best_score() -> None:
    found = best_of_each([Span(0, 4, "a", 0.6), Span(0, 4, "a", 0.9), Span(0, 4, "b", 0.7)])
    assert found == [Span(0, 4, "a", 0.9), Span(0, 4, "b", 0.7)]


@given(SPANS)
def test_flat_findings_never_overlap_and_what_is_missing_had_a_better_rival(spans) -> None:
    kept = without_overlaps(spans)
    for one, other in itertools.pairwise(kept):
        assert one.end <= other.start
    for lost in set(spans) - set(kept):
        rivals = [one for one in kept if one.start < lost.end and lost.start < one.end]
        assert max(one.score for one in rivals) >= lost.score


@given(SPANS)
def test_nested_findings_never_cross(spans) -> None:
    kept = without_overlaps(spans, "nested")
    for one, other in itertools.combinations(kept, 2):
        is_apart = one.end <= other.start or other.end <= one.start
        is_inside = (one.start <= other.start and other.end <= one.end) or (
            other.start <= one.start and one.end <= other.end
        )
        assert is_apart or is_inside


@given(SPANS, st.booleans())
def test_a_flat_choice_is_the_greedy_one(spans, multi_label) -> None:
    kept: list[Span] = []
    for span in sorted(spans, key=lambda one: (-one.score, one.start, one.end)):
        apart = [one for one in kept if (one.start, one.end) != (span.start, span.end)]
        is_free = all(span.end <= one.start or one.end <= span.start for one in apart)
        if is_free and (multi_label or len(apart) == len(kept)):
            kept.append(span)
    chosen = without_overlaps(spans, multi_label=multi_label)
    assert chosen == sorted(kept, key=lambda one: (one.start, one.end, one.label))


@given(SPANS, st.booleans())
def test_a_nested_choice_is_the_greedy_one(spans, multi_label) -> None:
    kept: list[Span] = []
    for span in sorted(spans, key=lambda one: (-one.score, one.start, one.end)):
        same = [one for one in kept if (one.start, one.end) == (span.start, span.end)]
        crosses = any(
            one.start < span.start < one.end < span.end
            or span.start < one.start < span.end < one.end
            for one in kept
        )
        if not crosses and (multi_label or not same):
            kept.append(span)
    chosen = without_overlaps(spans, "nested", multi_label=multi_label)
    assert chosen == sorted(kept, key=lambda one: (one.start, one.end, one.label))
