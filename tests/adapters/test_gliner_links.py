"""What a GLiNER that links entities takes, refuses and reports."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from sie_mcp import wire
from sie_mcp.errors import InputTooLong, InvalidInput, ModelLoadFailed
from tests.gliner_names import save_gliner_of_names
from tests.parity.relexes import BY_NAME, QUESTIONS, TEXTS, save_relex
from tests.running import extract, load, run
from tests.tiny import change_json


def ask(adapter: Any, text: str = TEXTS[0], **structure: Any) -> wire.ExtractedItem:
    options = {"structure": structure, "threshold": 0.5}
    return extract(adapter, [text], None, **options)[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_relex(tmp_path, BY_NAME["span-none"])
    return tmp_path


def test_its_card_says_that_it_links(folder: Path) -> None:
    card = load(folder).card
    assert card.outputs == ["entities", "relations"]
    assert card.decisions["relations"].startswith("none")


def test_labels_alone_find_entities_as_ever(folder: Path) -> None:
    found = extract(load(folder), [TEXTS[0]], ["person", "city"], threshold=0.5)[0]
    assert found.entities and not found.relations


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ({"relations": {"born in": ""}}, "links entities that you name: add entities"),
        ({"entities": {"x": "a cross"}}, "reads names alone; leave out the description of 'x'"),
        (
            {"entities": {"x": ""}, "records": [{"name": "a", "fields": [{"name": "b"}]}]},
            "finds entities and relations; a GLiNER2 model does the rest",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(folder: Path, structure: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask(load(folder), **structure)


def test_labels_and_a_structure_are_not_mixed(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="send labels or structure, not both"):
        extract(load(folder), ["x"], ["person"], structure={"entities": {"city": ""}})


def test_a_model_without_links_takes_no_structure(tmp_path: Path) -> None:
    save_gliner_of_names(tmp_path)
    with pytest.raises(InvalidInput, match="finds entities alone: send labels"):
        ask(load(tmp_path), entities={"name": ""})


def test_entities_and_relations_stand_in_one_prompt(folder: Path) -> None:
    many = {f"kind {number}": "" for number in range(26)}
    adapter = load(folder)
    with pytest.raises(InputTooLong, match="26 entities and 1 relations do not fit together"):
        ask(adapter, entities=many, relations={"born in": ""})
    assert ask(adapter, entities=many).error is None


def test_places_of_relations_are_in_the_unit_asked_for(folder: Path) -> None:
    adapter, text = load(folder), "👩 " + TEXTS[0]
    entities, relations = QUESTIONS[0][:2]
    structure = {"entities": dict.fromkeys(entities, ""), "relations": dict.fromkeys(relations, "")}
    options = {"structure": structure, "threshold": 0.5}
    found = extract(adapter, [text], None, offset_unit="byte", **options)[0].relations
    assert found
    for one in found:
        assert text.encode()[one.head_start : one.head_end].decode() == one.head
        assert text.encode()[one.tail_start : one.tail_end].decode() == one.tail


def test_neighbours_that_link_nothing_run_in_the_same_batch(folder: Path) -> None:
    adapter = load(folder)
    entities, relations = QUESTIONS[0][:2]
    structure = {"entities": dict.fromkeys(entities, ""), "relations": dict.fromkeys(relations, "")}
    alone = ask(adapter, **structure)
    request = wire.ExtractRequest.model_validate(
        {
            "items": [{"text": TEXTS[0]}, {"text": ""}, {"text": "x"}],
            "params": {"options": {"structure": structure, "threshold": 0.5}},
        }
    )
    found = run(adapter, request).items
    assert [len(one.relations) for one in found] == [len(alone.relations), 0, 0]
    assert alone.relations


def test_far_more_spans_than_are_linked_are_cut_to_the_surest(tmp_path, monkeypatch) -> None:
    save_relex(tmp_path, BY_NAME["token-none"])
    adapter = load(tmp_path)
    structure = {"entities": dict.fromkeys(QUESTIONS[0][0], ""), "relations": {"born in": ""}}
    every = [ask(adapter, text, **structure) for text in TEXTS]
    monkeypatch.setattr("sie_mcp.adapters.gliner.linking.MAX_NODES", 3)
    few = [ask(adapter, text, **structure) for text in TEXTS]
    assert max(len(one.relations) for one in every) > 6
    assert 0 < max(len(one.relations) for one in few) <= 6


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("span-none", {"relations_layer": "attention"}, "relations_layer 'attention' is not"),
        ("span-none", {"triples_layer": "TransE"}, "triples_layer 'TransE' is not supported"),
        ("span-none", {"relations_layer": None}, "_relex' has no relations_layer"),
        ("span-none", {"rel_token_index": 7}, "rel_token_index 7, its tokenizer reads rel_token"),
        ("span-none", {"labels_encoder": "x"}, "relations_layer of a bi-encoder"),
        ("span-gat", {"hidden_size": 20}, "hidden_size 20 is no multiple of 8"),
    ],
)
def test_files_that_would_change_the_numbers_are_refused(tmp_path, kind, changes, message) -> None:
    save_relex(tmp_path, BY_NAME[kind])
    change_json(tmp_path, "gliner_config.json", **changes)
    with pytest.raises(ModelLoadFailed, match=message):
        load(tmp_path)


def test_a_broken_head_for_links_does_not_load(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    (name, *_) = [one for one in tensors if one.startswith("pair_rep_layer") and "weight" in one]
    tensors[name].fill_(float("nan"))
    save_file(tensors, file)
    with pytest.raises(ModelLoadFailed, match="links output is not finite"):
        load(folder)
