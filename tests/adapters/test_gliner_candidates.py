"""Which scored spans count: those over the threshold as probabilities, to the last bit."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sie_mcp.adapters.gliner import candidates
from sie_mcp.adapters.gliner.candidates import (
    span_candidates,
    span_candidates_of,
    word_candidates,
)

LOGITS = st.floats(-100, 100, width=32)
THRESHOLDS = st.one_of(st.sampled_from([0.0, 1e-34, 0.5, 0.9999999, 1.0]), st.floats(0, 1))


def probability(logit: np.float32) -> np.float32:
    return np.float32(1) / (
        np.float32(1) + np.exp(-np.clip(logit, np.float32(-80), np.float32(80)))
    )


@example([18.0] * 12, 0.99999999, 0.9999999)
@given(st.lists(LOGITS, min_size=12, max_size=12), THRESHOLDS, THRESHOLDS)
def test_spans_over_their_label_s_threshold_are_found_in_order(values, first, second) -> None:
    logits = np.array(values, dtype=np.float32).reshape(3, 2, 2)
    thresholds = np.array([first, second])
    found = span_candidates(logits, thresholds)
    expected = [
        (word, word + width + 1, label, probability(logits[word, width, label]))
        for word in range(3)
        for width in range(2)
        for label in range(2)
        if word + width < 3 and probability(logits[word, width, label]) > thresholds[label]
    ]
    spans = zip(found.firsts, found.lasts, found.labels, found.scores, strict=True)
    assert list(spans) == expected


def test_a_probability_equal_to_the_threshold_is_not_over_it() -> None:
    logits = np.zeros((1, 1, 1), dtype=np.float32)
    assert len(span_candidates(logits, np.array([0.5]))) == 0
    assert len(span_candidates(logits, np.array([np.nextafter(0.5, 0)]))) == 1


def test_too_many_are_cut_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 2)
    logits = np.array([1.0, 3.0, 2.0], dtype=np.float32)
    assert span_candidates(logits[:, None, None], np.array([0.1])).firsts.tolist() == [1, 2]
    words = np.stack([logits] * 3, axis=-1)[:, None]
    assert len(word_candidates(words, np.array([0.1]))) == 2
    assert len(word_candidates(words - 9, np.array([0.1]))) == 0


def test_a_long_text_s_windows_take_no_more_memory_than_a_few_of_them():
    """Two million characters may be thousands of windows of 384 words; these are 200."""
    window = np.full((384, 12, 25), -9.0, np.float32)
    window[7, 2, 3] = 9.0
    windows = [window] * 200
    tracemalloc.start()
    found, owners = span_candidates_of(windows, np.full(25, 0.5))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert owners.tolist() == list(range(200))
    assert {*zip(found.firsts.tolist(), found.lasts.tolist(), strict=True)} == {(7, 10)}
    assert peak_bytes < len(windows) * window.nbytes / 4


def test_windows_that_are_not_looked_at_together_have_the_same_candidates(monkeypatch):
    logits = np.random.default_rng(0).normal(size=(30, 4, 3)).astype(np.float32)
    windows = [logits[first : first + 1 + first % 5] for first in range(25)]
    found, owners = span_candidates_of(windows, np.full(3, 0.5))
    assert 0 < len(found) < logits.size
    for most in (1, 12, 40, 100):
        monkeypatch.setattr(candidates, "MAX_LOGITS", most)
        again, others = span_candidates_of(windows, np.full(3, 0.5))
        assert np.array_equal(owners, others)
        for name in ("firsts", "lasts", "labels", "scores"):
            assert np.array_equal(getattr(found, name), getattr(again, name))
