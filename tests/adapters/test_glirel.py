"""What a GLiREL checkpoint takes, refuses and reports."""

from pathlib import Path
from typing import Any

import pytest

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.checkpoint.gliner_settings import BACKBONES
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.gliner_names import save_gliner_of_names
from tests.parity.glirels import BY_NAME, save_glirel
from tests.running import load, run
from tests.tiny import change_json

TEXT = "👩 Ann met Bob in Paris."
SPANS = [(2, 5), (10, 13), (17, 22)]


@pytest.fixture(autouse=True)
def backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKBONES, "tiny", BY_NAME["marked"].encoder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_glirel(tmp_path, BY_NAME["marked"])
    return tmp_path


def ask(
    adapter: Adapter, text: str = TEXT, spans: Any = SPANS, labels: Any = None, **options: Any
) -> wire.ExtractedItem:
    options = {"structure": {"relations": {"works for": "", "born in": ""}}, **options}
    places = None if spans is None else [{"start": start, "end": end} for start, end in spans]
    request = wire.ExtractRequest.model_validate(
        {
            "items": [{"text": text, "spans": places}],
            "params": {"labels": labels, "options": options},
        }
    )
    item: wire.ExtractedItem = run(adapter, request).items[0]
    return item


def test_each_two_entities_are_judged_both_ways_at_the_places_given(folder: Path) -> None:
    adapter = load(folder)
    assert adapter.card.outputs == ["relations"]
    found = ask(adapter, threshold=0.0).relations
    assert len(found) == 3 * 2 * 2
    for one in found:
        assert TEXT[one.head_start : one.head_end] == one.head
        assert TEXT[one.tail_start : one.tail_end] == one.tail
    assert {one.head for one in found} == {"Ann", "Bob", "Paris"}


def test_the_best_of_each_pair_is_kept_and_only_over_the_threshold(folder: Path) -> None:
    adapter = load(folder)
    every = ask(adapter, threshold=0.0).relations
    best = ask(adapter, threshold=0.0, top_k=1).relations
    assert len(best) == 6
    assert all(
        one.score == max(two.score for two in every if (two.head, two.tail) == (one.head, one.tail))
        for one in best
    )
    limit = sorted(one.score for one in every)[5]
    assert len(ask(adapter, threshold=limit).relations) == 6


def test_a_long_text_is_read_in_windows_that_find_pairs_at_their_borders(folder: Path) -> None:
    change_json(folder, "glirel_config.json", max_len=12)
    adapter = load(folder)
    text = " ".join(["stone"] * 11 + ["Ann", "Bob"] + ["river"] * 20 + ["Carl", "Eve"])
    spans = [(text.index(name), text.index(name) + len(name)) for name in ("Ann", "Bob", "Eve")]
    spans.append((text.index("Carl"), text.index("Carl") + 4))
    found = ask(adapter, text, spans, threshold=0.0, top_k=1).relations
    pairs = {(one.head, one.tail) for one in found}
    assert pairs == {("Ann", "Bob"), ("Bob", "Ann"), ("Carl", "Eve"), ("Eve", "Carl")}


def test_many_relations_are_dealt_out_to_prompts(folder: Path) -> None:
    relations = {"long relation of many letters " * 3 + str(number): "" for number in range(8)}
    found = ask(load(folder), threshold=0.0, structure={"relations": relations}).relations
    assert {one.relation for one in found} == set(relations)
    assert len(found) == 6 * 8


@pytest.mark.parametrize("spans", [[], SPANS[:1], [SPANS[0], SPANS[0]]])
def test_fewer_than_two_entities_have_no_relations(folder: Path, spans: Any) -> None:
    found = ask(load(folder), spans=spans, threshold=0.0)
    assert not found.relations and found.error is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"spans": None}, "needs a text and spans"),
        ({"spans": [(0, 99)]}, r"span \[0, 99\); it must be"),
        ({"spans": [(4, 4)]}, r"span \[4, 4\); it must be"),
        ({"spans": [(1, 2), (3, 5)]}, r"span \[1, 2\) without a word"),
        ({"spans": [(2, 9), (6, 13)]}, "that overlap"),
        ({"labels": ["person"]}, "send options.structure.relations"),
        ({"structure": None}, "send options.structure.relations"),
        ({"structure": {}}, "send at least one"),
        ({"structure": {"relations": {"a": "b"}}}, "leave out the description of 'a'"),
        ({"structure": {"entities": {"x": ""}}}, "finds relations alone"),
        ({"windowing": False}, "no option windowing"),
    ],
)
def test_what_it_cannot_do_is_refused(folder: Path, asked: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask(load(folder), **asked)


def test_limits_name_what_is_too_much(folder: Path) -> None:
    adapter, text = load(folder), "a " * 129
    with pytest.raises(InputTooLong, match="129 spans within"):
        ask(adapter, text, [(place, place + 1) for place in range(0, 258, 2)])
    change_json(folder, "tokenizer_config.json", model_max_length=64)
    with pytest.raises(InputTooLong, match="reads relations of at most 30"):
        ask(load(folder), structure={"relations": {"x " * 75: ""}})


def test_other_models_refuse_spans(tmp_path: Path) -> None:
    save_gliner_of_names(tmp_path)
    with pytest.raises(InvalidInput, match="only GLiREL models read"):
        ask(load(tmp_path), labels=["name"], structure=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scorer": "concat_proj"}, "scorer 'concat_proj' is not supported"),
        ({"subtoken_pooling": "mean"}, "subtoken_pooling 'mean' is not supported"),
        ({"fusion": 1}, "fusion 1 is not known here"),
        ({"max_len": 0}, "max_len 0 must be a number over 0"),
        ({"entity_start_token": "<e>"}, "entity_start_token '<e>' is not supported"),
        ({"model_name": "other"}, "glirel_config.json: it has no encoder_config, and model_name"),
        ({"refine_prompt": True}, "hidden_size 32 cannot be cut into heads"),
    ],
)
def test_settings_that_would_change_the_numbers_are_refused(folder, changes, message) -> None:
    change_json(folder, "glirel_config.json", **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(folder)
