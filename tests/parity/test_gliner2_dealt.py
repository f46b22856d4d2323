"""GLiNER2 asked for more than a prompt holds: dealt out, joined again, and what stays whole."""

from pathlib import Path
from typing import Any

import pytest

from sie_mcp import wire
from sie_mcp.errors import InputTooLong
from tests.parity.gliner2_models import TEXTS, VARIANTS, request, save
from tests.parity.run import load
from tests.running import extract_request, run

LABELS = [f"river stone w{number % 40} {number}" for number in range(120)]
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("gliner2")
    # Reads 512 tokens.
    save(folder, VARIANTS[3])
    return load(folder)


def ask(labels: list[str], texts: list[str] = TEXTS) -> wire.ExtractRequest:
    asked = extract_request(texts, labels)
    asked.params.options.threshold = 0.4
    return asked


def question(num_labels: int, *, multi_label: bool) -> dict[str, Any]:
    labels = dict.fromkeys(LABELS[:num_labels], "alpha beta")
    return {"name": "coffee", "labels": labels, "multi_label": multi_label}


def dealt(adapter: Any, asked: wire.ExtractRequest) -> list[Any]:
    """Return the structures that prompts ask for."""
    prompts = adapter.prepare(asked).notes.asked
    assert len(prompts) > 1 and all(one.num_tokens <= adapter._limit // 2 for one in prompts)
    return [one.schema.structure for one in prompts]


def test_120_labels_are_all_looked_for_as_if_each_prompt_were_asked_alone(adapter: Any) -> None:
    parts = [list(one.entities) for one in dealt(adapter, ask(LABELS))]
    assert [label for own in parts for label in own] == LABELS
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    together = run(adapter, ask(LABELS)).items
    alone = [run(adapter, ask(own)).items for own in parts]
    for place, item in enumerate(together):
        expected = [one for items in alone for one in items[place].entities]
        expected.sort(key=lambda one: (one.start, one.end, one.label))
        assert [(one.start, one.end, one.label) for one in item.entities] == [
            (one.start, one.end, one.label) for one in expected
        ]
        scores = [one.score for one in expected]
        assert [one.score for one in item.entities] == pytest.approx(scores, abs=TOLERANCE)
        assert item.num_tokens == sum(items[place].num_tokens for items in alone)
    found = {one.label for item in together for one in item.entities}
    assert all(found & set(own) for own in parts), "something of every prompt"


def test_neither_the_order_of_sequences_nor_labels_named_twice_change_anything(
    adapter: Any,
) -> None:
    expected = run(adapter, ask(LABELS)).items
    twice = ask([*LABELS, *LABELS[5::-1], LABELS[70]])
    assert run(adapter, twice).items == expected
    backwards = range(len(adapter.prepare(twice).sequences))[::-1]
    for item, other in zip(expected, run(adapter, twice, order=backwards).items, strict=True):
        assert [(one.start, one.end, one.label) for one in item.entities] == [
            (one.start, one.end, one.label) for one in other.entities
        ]


def test_the_order_of_labels_decides_prompts_and_nothing_else(adapter: Any) -> None:
    first, *_ = dealt(adapter, ask(LABELS))
    second, *_ = dealt(adapter, ask(LABELS[::-1]))
    assert list(second.entities) == LABELS[::-1][: len(second.entities)]
    assert list(first.entities) == LABELS[: len(first.entities)]
    for item in run(adapter, ask(LABELS[::-1])).items:
        places = [(one.start, one.end, one.label) for one in item.entities]
        assert places == sorted(set(places))


def test_a_long_text_is_read_whole_by_every_prompt(adapter: Any) -> None:
    text = " ".join(f"w{number % 40} stone" for number in range(150))
    (item,) = run(adapter, ask(LABELS, [text])).items
    places = [(one.start, one.end, one.label) for one in item.entities]
    assert len(set(places)) == len(places) > 0
    assert max(one.end for one in item.entities) > len(text) * 0.9
    assert all(text[one.start : one.end] == one.text for one in item.entities)


def test_labels_that_are_judged_alone_are_dealt_out_and_the_best_of_all_come_first(
    adapter: Any,
) -> None:
    asked = request([TEXTS[0]], {"classifications": [question(80, multi_label=True)]})
    parts = [one.classifications[0].labels for one in dealt(adapter, asked)]
    (item,) = run(adapter, asked).items
    scores = {one.label: one.score for one in item.classifications}
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert sorted(scores) == sorted(LABELS[:80]) and len(item.classifications) == 80
    own = {"name": "coffee", "labels": parts[1], "multi_label": True}
    (alone,) = run(adapter, request([TEXTS[0]], {"classifications": [own]})).items
    for one in alone.classifications:
        assert scores[one.label] == pytest.approx(one.score, abs=TOLERANCE)
    asked.params.options.top_k = 3
    (best,) = run(adapter, asked).items
    assert best.classifications == item.classifications[:3]


def test_labels_under_one_softmax_stay_together_or_are_refused(adapter: Any) -> None:
    whole = question(80, multi_label=False)
    with pytest.raises(InputTooLong, match=r"part 'coffee' .* share one softmax.*set multi_label"):
        adapter.prepare(request(["alpha"], {"classifications": [whole]}))
    fits = question(10, multi_label=False)
    structure = {"entities": dict.fromkeys(LABELS[:90], ""), "classifications": [fits]}
    asked = request([TEXTS[0]], structure)
    parts = dealt(adapter, asked)
    assert [len(one.labels) for part in parts for one in part.classifications] == [10]
    (item,) = run(adapter, asked).items
    assert sum(one.score for one in item.classifications) == pytest.approx(1.0)


def test_relations_and_records_are_dealt_out_whole(adapter: Any) -> None:
    fields = [{"name": name, "choices": ["w5", "w6"]} for name in ("alpha", "beta")]
    names = [f"gamma {number}" for number in range(30)]
    structure = {
        "records": [{"name": one, "fields": fields} for one in names],
        "relations": dict.fromkeys(LABELS[:30], ""),
    }
    asked = request([TEXTS[2]], structure)
    parts = dealt(adapter, asked)
    assert [one.name for part in parts for one in part.records] == names
    assert [one for part in parts for one in part.relations] == LABELS[:30]
    (item,) = run(adapter, asked).items
    assert item.error is None and {one.name for one in item.records} <= {*names}
