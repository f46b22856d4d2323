"""Findings of many texts at once are those that each text, and each span alone, would give."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence, pad_sequence, unpack_sequence

from sie_mcp.adapters import span_decoding
from sie_mcp.adapters.gliner import candidates, finding
from sie_mcp.adapters.gliner.candidates import (
    Candidates,
    span_candidates,
    span_candidates_of,
    word_candidates,
    word_candidates_of,
)
from sie_mcp.adapters.gliner.choosing import Borders, best_of_each, without_overlaps
from sie_mcp.adapters.gliner.forward import padded
from sie_mcp.adapters.gliner.head import by_steps, in_steps
from sie_mcp.adapters.span_decoding import Span
from sie_mcp.adapters.word_windows import is_cut, make_word_windows
from tests.parity.gliners import BY_NAME, TEXTS, save_gliner
from tests.running import extract_request, load, run

OVERLAPS = ("flat", "nested", "longest", "all")
NAMES = ["pear", "fig", "apple"]
# Few scores, so that many tie.
ROWS = st.lists(
    st.tuples(st.integers(0, 10), st.integers(1, 5), st.integers(0, 2), st.integers(0, 4)),
    max_size=25,
)


def _candidates(rows: list[tuple[int, int, int, int]]) -> Candidates:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    scores = (columns[3] / 8).astype(np.float32)
    return Candidates(columns[0], columns[0] + columns[1], columns[2], scores)


def _spans(found: Candidates) -> list[Span]:
    columns = (found.firsts, found.lasts, found.labels, found.scores)
    rows = zip(*(one.tolist() for one in columns), strict=True)
    return [Span(first, last, NAMES[label], score) for first, last, label, score in rows]


@given(ROWS, st.sampled_from(OVERLAPS), st.booleans())
def test_arrays_are_decided_as_spans_are_ties_included(rows, overlap, multi_label) -> None:
    found = _candidates(rows)
    best = best_of_each(found)
    assert _spans(best) == span_decoding.best_of_each(_spans(found))
    ranks = np.argsort(sorted(range(3), key=NAMES.__getitem__))
    lengths = best.lasts - best.firsts
    kept = _spans(without_overlaps(best, ranks, lengths, overlap, multi_label=multi_label))
    assert kept == span_decoding.without_overlaps(_spans(best), overlap, multi_label=multi_label)


def test_the_longer_of_two_has_more_characters_not_more_words() -> None:
    found = _candidates([(0, 3, 0, 1), (2, 2, 0, 1)])
    ranks, lengths = np.array([0]), np.array([5, 20])
    kept = without_overlaps(found, ranks, lengths, "longest", multi_label=False)
    assert kept.firsts.tolist() == [2]


@given(st.integers(1, 60), st.integers(2, 12), st.integers(1, 9), st.randoms())
def test_what_a_border_cuts_is_what_the_windows_say(num_words, max_words, overlap, random) -> None:
    windows = make_word_windows(
        [1] * num_words, max_words=max_words, max_tokens=99, overlap=overlap
    )
    # Of another text before it, which nothing may be seen from.
    shift = 7
    borders = Borders.of(
        [[(0, shift)], [(one.first + shift, one.last + shift) for one in windows], []]
    )
    for place, window in enumerate(windows):
        first = random.randrange(window.first, window.last)
        last = random.randrange(first + 1, window.last + 1)
        near = windows[max(place - 1, 0) : place + 2]
        one = _candidates([(first + shift, last - first, 0, 1)])
        whole = borders.whole(one, np.array([place + 1]))
        assert whole.tolist() == [not is_cut(window, first, last, near)]


@pytest.mark.parametrize("limit", [3, 20_000])
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 99), st.data())
def test_windows_together_have_the_candidates_of_each_alone(limit, sizes, seed, data) -> None:
    threshold = data.draw(st.sampled_from([0.0, 0.4, 0.99]))
    thresholds = np.array([threshold, 0.5])
    rng = np.random.default_rng(seed)
    before, candidates.MAX_CANDIDATES = candidates.MAX_CANDIDATES, limit
    try:
        for of_all, of_one, shape in (
            (span_candidates_of, span_candidates, (3, 2)),
            (word_candidates_of, word_candidates, (2, 3)),
        ):
            windows = [rng.normal(size=(size, *shape)).round(1).astype("f4") for size in sizes]
            found, owners = of_all(windows, thresholds)
            for place, window in enumerate(windows):
                own = _columns(found.some(owners == place))
                assert own == _columns(of_one(window, thresholds))
            assert (np.diff(owners) >= 0).all()
    finally:
        candidates.MAX_CANDIDATES = before


def _columns(found: Candidates) -> list[list[Any]]:
    return [one.tolist() for one in (found.firsts, found.lasts, found.labels, found.scores)]


@pytest.mark.parametrize("name", ["deberta", "deberta-token"])
@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("threshold", [0.0, 0.6])
def test_texts_looked_at_together_or_alone_have_the_same_findings(
    name, overlap, threshold, tmp_path, monkeypatch
) -> None:
    save_gliner(tmp_path, BY_NAME[name])
    adapter = load(tmp_path)
    # More than one prompt, and a text of several windows.
    labels = [f"label {number}" for number in range(30)]
    texts = [*TEXTS[:4], " ".join(f"w{number}" for number in range(450)), " "]
    options = {"threshold": threshold, "overlap": overlap, "thresholds": {labels[3]: 0.9}}
    request = extract_request(texts, labels, **options)
    prepared, kept = adapter.prepare(request), []
    run(_Keeping(adapter, kept), request)
    together = adapter.finish(request, prepared, kept)
    monkeypatch.setattr(finding, "MAX_TOGETHER", 1)
    assert adapter.finish(request, prepared, kept) == together
    assert sum(len(item.entities) for item in together.items) > 2
    for text, item in zip(texts, together.items, strict=True):
        found = [(one.start, one.end, one.label) for one in item.entities]
        assert found == sorted(found)
        assert all(text[one.start : one.end] == one.text for one in item.entities)


class _Keeping:
    """An adapter whose outputs are kept."""

    def __init__(self, adapter: Any, kept: list[Any]) -> None:
        self._adapter, self._kept = adapter, kept
        self.prepare, self.forward = adapter.prepare, adapter.forward

    def finish(self, request: Any, prepared: Any, outputs: Any) -> Any:
        self._kept += outputs
        return self._adapter.finish(request, prepared, outputs)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any))
def test_words_go_through_the_rnn_in_the_order_of_the_library(sizes) -> None:
    texts = torch.split(torch.arange(sum(sizes)), sizes)
    library = pack_sequence([one for one in texts if len(one)], enforce_sorted=False)
    rows, batch_sizes = by_steps(sizes)
    assert batch_sizes.tolist() == library.batch_sizes.tolist()
    lengths = np.repeat(sizes, sizes)
    # Texts of one length may stand in any order.
    assert lengths[rows].tolist() == lengths[library.data.numpy()].tolist()
    for first, count in zip(itertools.accumulate([0, *batch_sizes]), batch_sizes, strict=False):
        step = rows[first : first + count]
        assert len(set(np.repeat(np.arange(len(sizes)), sizes)[step])) == count
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    assert (np.diff((np.arange(sum(sizes)) - starts)[rows]) >= 0).all()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(any))
def test_rows_of_sequences_are_padded_as_the_library_does(sizes) -> None:
    states = torch.randn(sum(sizes), 3)
    expected = pad_sequence(list(torch.split(states, sizes)), batch_first=True)
    assert torch.equal(padded(states, sizes), expected)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any))
def test_words_come_out_of_the_rnn_as_with_the_library(sizes) -> None:
    torch.manual_seed(0)
    rnn = torch.nn.LSTM(6, 3, bidirectional=True)
    states = torch.randn(sum(sizes), 6)
    with torch.inference_mode():
        texts = [one for one in torch.split(states, sizes) if len(one)]
        packed = rnn(pack_sequence(texts, enforce_sorted=False))[0]
        found = in_steps(rnn, states, *by_steps(sizes))
    torch.testing.assert_close(found, torch.cat(unpack_sequence(packed)), rtol=0, atol=1e-6)
