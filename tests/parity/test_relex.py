"""GLiNER's links against the gliner package's own answers: same ends, scores within 1e-4."""

import json
from typing import Any

import pytest

from sie_mcp import wire
from tests.parity.relexes import BY_NAME, EXPECTED, KINDS, QUESTIONS, TEXTS, save_relex
from tests.running import load, run

TOLERANCE = 1e-4
FOUND = json.loads(EXPECTED.read_text())["found"]


def request_of(texts: list[str], question: Any) -> wire.ExtractRequest:
    entities, relations, threshold, _, ours = question
    structure = {"entities": dict.fromkeys(entities, ""), "relations": dict.fromkeys(relations, "")}
    options = {"threshold": threshold, "structure": structure, **ours}
    items = [{"text": text} for text in texts]
    return wire.ExtractRequest.model_validate({"items": items, "params": {"options": options}})


def rows_of(item: wire.ExtractedItem) -> list[list[list[Any]]]:
    entities = [[one.start, one.end, one.label, one.score] for one in item.entities]
    relations = [
        [one.head_start, one.head_end, one.tail_start, one.tail_end, one.relation, one.score]
        for one in item.relations
    ]
    return [entities, relations]


def assert_same(found: list[list[Any]], expected: list[list[Any]]) -> None:
    one, other = sorted(found), sorted(expected)
    assert [row[:-1] for row in one] == [row[:-1] for row in other]
    assert [row[-1] for row in one] == pytest.approx([row[-1] for row in other], abs=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_entities_and_their_links_are_those_of_the_package(kind, alone, tmp_path):
    save_relex(tmp_path, kind)
    adapter = load(tmp_path)
    for question, answers in zip(QUESTIONS, FOUND[kind.name], strict=True):
        groups = [[text] for text in TEXTS] if alone else [TEXTS]
        items = [one for texts in groups for one in run(adapter, request_of(texts, question)).items]
        for item, answer, text in zip(items, answers, TEXTS, strict=True):
            for found, expected in zip(rows_of(item), answer, strict=True):
                assert_same(found, expected)
            assert all(text[one.head_start : one.head_end] == one.head for one in item.relations)
            assert all(text[one.tail_start : one.tail_end] == one.tail for one in item.relations)


def test_the_reference_links_something_in_every_kind():
    assert FOUND.keys() == BY_NAME.keys()
    for name, found in FOUND.items():
        assert sum(len(links) for one in found for _, links in one) >= 10, name


def test_order_does_not_change_a_link(tmp_path):
    save_relex(tmp_path, BY_NAME["span-gcn"])
    adapter = load(tmp_path)
    request = request_of(TEXTS, QUESTIONS[0])
    expected = [rows_of(item) for item in run(adapter, request).items]
    turned = run(adapter, request, order=range(len(adapter.prepare(request).sequences))[::-1])
    for item, rows in zip(turned.items, expected, strict=True):
        for found, wanted in zip(rows_of(item), rows, strict=True):
            assert_same(found, wanted)
