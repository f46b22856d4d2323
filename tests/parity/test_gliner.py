"""GLiNER against the gliner package's own answers: same spans and labels, scores within 1e-5."""

import json
from typing import Any

import pytest
import torch

from sie_mcp import wire
from tests.parity.gliners import BY_NAME, EXPECTED, KINDS, QUESTIONS, TEXTS, save_gliner
from tests.running import extract, extract_request, load, run

TOLERANCE = 1e-5


def _rows(item: wire.ExtractedItem) -> list[list[Any]]:
    return [[one.start, one.end, one.label, one.score] for one in item.entities]


def furthest(found: list[list[Any]], expected: list[list[Any]]) -> float:
    """Return the largest difference of scores of the same findings; they must be the same."""
    found, expected = (sorted(one, key=lambda row: row[:3]) for one in (found, expected))
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    return max(
        (abs(a[3] - b[3]) for a, b in zip(found, expected, strict=True)),
        default=0.0,
    )


def compare(adapter: Any, name: str, *, alone: bool) -> float:
    """Ask everything that the reference was asked; return the largest difference of a score."""
    answers = json.loads(EXPECTED.read_text())["found"][name]
    worst = 0.0
    for (labels, threshold, _, ours), expected in zip(QUESTIONS, answers, strict=True):
        options = {"threshold": threshold, **ours}
        groups = [[text] for text in TEXTS] if alone else [TEXTS]
        items = [item for texts in groups for item in extract(adapter, texts, labels, **options)]
        for item, rows, text in zip(items, expected, TEXTS, strict=True):
            worst = max(worst, furthest(_rows(item), rows))
            assert all(text[one.start : one.end] == one.text for one in item.entities)
    return worst


@pytest.fixture(autouse=True)
def _one_thread():
    """How many threads share a sum moves its last digits; of two encoders by 5e-6."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_spans_are_those_of_the_package(kind, alone, tmp_path):
    save_gliner(tmp_path, kind)
    assert compare(load(tmp_path), kind.name, alone=alone) <= TOLERANCE


def test_the_reference_finds_something_in_every_kind():
    answers = json.loads(EXPECTED.read_text())["found"]
    assert answers.keys() == BY_NAME.keys()
    for name, found in answers.items():
        assert sum(len(rows) for one in found for rows in one) >= 20, name


@pytest.mark.parametrize("name", ["deberta", "bert-token-no-marker", "bi-deberta-bert"])
def test_neither_order_nor_neighbours_change_a_score(name, tmp_path):
    save_gliner(tmp_path, BY_NAME[name])
    adapter = load(tmp_path)
    request = extract_request(TEXTS, QUESTIONS[0][0], threshold=0.3)
    expected = [_rows(item) for item in run(adapter, request).items]
    num_sequences = len(adapter.prepare(request).sequences)
    turned = run(adapter, request, order=range(num_sequences)[::-1]).items
    alone = [extract(adapter, [text], QUESTIONS[0][0], threshold=0.3)[0] for text in TEXTS]
    for one, other, rows in zip(turned, alone, expected, strict=True):
        assert furthest(_rows(one), rows) <= TOLERANCE
        assert furthest(_rows(other), rows) <= TOLERANCE
