"""GLiNER2 against the gliner2 package, on tiny random checkpoints; windows, limits, refusals."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from sie_mcp import wire
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.parity.gliner2_models import STRUCTURE, TEXTS, VARIANTS, found, furthest, request, save
from tests.parity.run import load
from tests.running import extract, extract_request, run
from tests.tiny import change_json

TOLERANCE = 1e-5
VARIANT = VARIANTS[0]


@pytest.fixture
def adapter(tmp_path: Path) -> Any:
    save(tmp_path, VARIANT)
    return load(tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
def test_findings_and_scores_equal_the_library_s(variant: str, tmp_path: Path) -> None:
    model = save(tmp_path, variant)
    assert furthest(load(tmp_path), model) < TOLERANCE


def test_findings_know_neither_batch_nor_order(adapter: Any) -> None:
    alone = [found(adapter, [text])[0] for text in TEXTS]
    together = found(adapter, TEXTS[::-1])[::-1]
    for one, other in zip(alone, together, strict=True):
        assert one.keys() == other.keys()
        for key, score in one.items():
            assert other[key] == pytest.approx(score, abs=TOLERANCE)


@pytest.mark.parametrize(
    "text", ["alpha beta", "İ 👩‍👧 alpha / beta", "e\u0301 stone\n", "北京 x", ""]
)
def test_offsets_count_code_points_of_the_caller_s_own_string(adapter: Any, text: str) -> None:
    (item,) = run(adapter, request([text])).items
    values = [one for record in item.records for own in record.fields.values() for one in own]
    for one in (*item.entities, *(one for one in values if one.start is not None)):
        assert text[one.start : one.end] == one.text and one.text.strip() == one.text
    for pair in item.relations:
        assert text[pair.head_start : pair.head_end] == pair.head
        assert text[pair.tail_start : pair.tail_end] == pair.tail
    assert bool(text) or not (item.entities or item.relations or item.records)


def test_labels_alone_are_entities(adapter: Any) -> None:
    labels = list(STRUCTURE["entities"])
    (item,) = extract(adapter, [TEXTS[0]], labels)
    asked = request([TEXTS[0]], {"entities": dict.fromkeys(labels, "")})
    assert item == run(adapter, asked).items[0]


def test_a_long_text_is_read_to_its_end_and_nothing_is_found_twice(adapter: Any) -> None:
    words = [f"w{number % 40}" for number in range(1_500)]
    for place in (0, 383, 384, 385, 1_000, 1_499):
        words[place] = "stone"
    text = " ".join(words) + "."
    (item,) = run(adapter, request([text])).items
    assert not item.truncated
    places = [(one.start, one.end, one.label) for one in item.entities]
    assert len(set(places)) == len(places) > 0
    assert max(one.end for one in item.entities) > len(text) * 0.9
    for label in STRUCTURE["entities"]:
        spans = sorted(one for one in places if one[2] == label)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    cut = request([text])
    cut.params.options.windowing = False
    (item,) = run(adapter, cut).items
    assert item.truncated and text[: item.read_to].count(" ") == 383
    assert max(one.end for one in item.entities) <= item.read_to


def test_two_fields_may_have_the_same_choices(adapter: Any) -> None:
    fields = [{"name": name, "choices": ["w5", "w6"]} for name in ("alpha", "beta")]
    schema = {"records": [{"name": "x", "fields": fields}]}
    asked = request([TEXTS[2]], schema)
    asked.params.options.threshold = 0.0
    (item,) = run(adapter, asked).items
    for record in item.records:
        one, other = (record.fields[name][0].score for name in ("alpha", "beta"))
        assert one != other


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ({}, "structure looks for nothing"),
        ({"records": [{"name": "a", "fields": [{"name": "b"}, {"name": "b"}]}]}, "'b' more than"),
        (
            {"classifications": [{"name": "a", "labels": {"b": ""}}] * 2},
            "classifications has 'a' more than once",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(
    adapter: Any, structure: dict[str, Any], message: str
) -> None:
    asked = request(["alpha"], {"entities": {"a": ""}})
    asked.params.options.structure = type(asked.params.options.structure).model_validate(structure)
    with pytest.raises(InvalidInput, match=message):
        adapter.prepare(asked)


def test_a_record_that_leaves_no_room_is_refused(adapter: Any) -> None:
    told = "alpha beta gamma delta epsilon morning coffee " * 3
    fields = [{"name": f"river stone {number}", "description": told} for number in range(100)]
    with pytest.raises(InputTooLong, match="ask for less at once"):
        adapter.prepare(request(["alpha"], {"records": [{"name": "x", "fields": fields}]}))


def test_what_is_not_asked_of_it_is_refused(adapter: Any) -> None:
    with pytest.raises(InvalidInput, match="not both"):
        asked = request(["alpha"])
        asked.params.labels = ["a"]
        adapter.prepare(asked)
    with pytest.raises(InvalidInput, match="finds what you name"):
        adapter.prepare(extract_request(["alpha"]))
    with pytest.raises(InvalidInput, match="it can extract, nothing else"):
        adapter.prepare(wire.EncodeRequest(items=[wire.Item(text="a")]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "boundary"}, "architecture 'boundary'"),
        ({"token_pooling": "mean"}, "token_pooling 'mean'"),
        ({"counting_layer": "count_mamba"}, "counting_layer 'count_mamba'"),
        ({"span_head": {"span_mode": "markerV1"}}, "span_mode 'markerV1'"),
        ({"max_width": 5, "span_head": {"max_width": 5}, "boundary_head": {}}, "boundary_head"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    save(tmp_path, VARIANT)
    change_json(tmp_path, "config.json", **changes)
    with pytest.raises(ModelLoadFailed, match=re.escape(message)):
        load(tmp_path)


def test_a_checkpoint_without_its_encoder_s_settings_is_refused(tmp_path: Path) -> None:
    save(tmp_path, VARIANT)
    (tmp_path / "encoder_config" / "config.json").unlink()
    with pytest.raises(ModelLoadFailed, match="checkpoint without encoder_config"):
        load(tmp_path)
