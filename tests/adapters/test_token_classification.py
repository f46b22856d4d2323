"""Entities through the door that the engine uses: files in, entities with offsets out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.errors import InferenceError, InvalidInput
from tests.names import DOUBTED, LETTERS_OF_CHINESE, NAMES, save_name_finder
from tests.running import encode_request, extract, extract_request, load

TEXTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "Bob",
                "Jose\u0301",
                "İstanbul",
                "👩‍👩‍👧",
                "北京",
                "x",
                "e\u0301",
                "\u200b",
                "ＡＢＣ",
                ",",
            ]
        ),
        st.sampled_from(["", " ", "\n", "\u00a0\t"]),
    ),
    max_size=10,
).map(lambda pairs: "".join(word + space for word, space in pairs))


@pytest.fixture
def finder(tmp_path: Path) -> Adapter:
    save_name_finder(tmp_path)
    return load(tmp_path)


def _found(adapter: Adapter, text: str, **options: Any) -> list[str]:
    item = extract(adapter, [text], **options)[0]
    for entity in item.entities:
        assert text[entity.start : entity.end] == entity.text
    return [entity.text for entity in item.entities]


def test_neighbouring_words_of_one_entity_join(finder: Adapter) -> None:
    assert _found(finder, "hello Ada Lovelace, this is Bob.") == ["Ada Lovelace", "Bob"]


def test_a_new_entity_begins_where_its_tag_says_so(finder: Adapter) -> None:
    assert _found(finder, "Ada Bob Carl") == ["Ada", "Bob", "Carl"]
    assert _found(finder, "Ada York Bob") == ["Ada", "York", "Bob"]


def test_words_glued_with_punctuation_are_one_entity(tmp_path: Path) -> None:
    save_name_finder(tmp_path, {"ada": "B-EMAIL", "@": "B-EMAIL", ".": "B-EMAIL", "eve": "B-EMAIL"})
    assert _found(load(tmp_path), "to ada@eve.ada or eve") == ["ada@eve.ada", "eve"]


def test_letters_side_by_side_are_entities_as_their_tags_say(tmp_path: Path) -> None:
    save_name_finder(tmp_path, LETTERS_OF_CHINESE)
    assert _found(load(tmp_path), "the 北京上海 hello") == ["北京", "上海"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        # BILOU, BIOES, BIO without B (as conll-03 is often written), plain.
        ({"ada": "B-X", "bob": "I-X", "eve": "L-X", "carl": "U-X"}, ["ada bob eve", "carl"]),
        ({"ada": "B-X", "bob": "I-X", "eve": "E-X", "carl": "S-X"}, ["ada bob eve", "carl"]),
        ({"ada": "I-X", "bob": "I-X", "eve": "I-Y", "carl": "I-X"}, ["ada bob", "eve", "carl"]),
        ({"ada": "X", "bob": "X", "eve": "Y", "carl": "Y"}, ["ada bob", "eve carl"]),
    ],
)
def test_every_scheme_of_tags_is_read(
    tmp_path: Path, tags: dict[str, str], expected: list[str]
) -> None:
    save_name_finder(tmp_path, tags, doubted={})
    adapter = load(tmp_path)
    assert _found(adapter, "ada bob eve carl") == expected
    assert adapter.card.labels == sorted({tag.split("-")[-1] for tag in tags.values()})


def test_a_word_takes_the_tag_of_its_first_piece(finder: Adapter) -> None:
    assert _found(finder, "adamant and theada") == ["adamant"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann met BOB.", ["BOB"]),
        ("  \tCarl\n", ["Carl"]),
        ("İstanbul 👩‍👩‍👧 Dora", ["İstanbul", "Dora"]),
        ("é Eve", ["Eve"]),
        ("José and Jose\u0301, JOSÉ", ["José", "Jose\u0301", "JOSÉ"]),
        ("x\u00a0Eve\u200b", ["Eve\u200b"]),
        ("𝒳 Ada\u0301 Lovelace", ["Ada\u0301 Lovelace"]),
        ("\ufeffBob\r\nEve", ["\ufeffBob", "Eve"]),
    ],
)
def test_offsets_count_code_points_of_the_caller_s_own_string(
    finder: Adapter, text: str, expected: list[str]
) -> None:
    assert [one.strip("\u200b\ufeff") for one in _found(finder, text)] == [
        one.strip("\u200b\ufeff") for one in expected
    ]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    folder = tmp_path_factory.mktemp("names")
    save_name_finder(folder, NAMES | LETTERS_OF_CHINESE)
    return load(folder)


@settings(max_examples=40, deadline=None)
@given(text=TEXTS)
def test_any_text_holds_each_entity_where_it_says(scripts: Adapter, text: str) -> None:
    """Case T55, for any text: what stands apart is found, and where it stands."""
    found = _found(scripts, text)
    apart = [word for word in text.split() if word in ("Bob", "Jose\u0301", "北京")]
    assert [one for one in apart if found.count(one) < apart.count(one)] == []


@pytest.mark.parametrize(
    ("unit", "encoding", "width"), [("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)]
)
def test_offsets_may_count_other_units(
    finder: Adapter, unit: str, encoding: str, width: int
) -> None:
    text = "𝒳 é Ada Lovelace, Eve"
    raw = text.encode(encoding)
    entities = extract(finder, [text], offset_unit=unit)[0].entities
    found = [raw[one.start * width : one.end * width].decode(encoding) for one in entities]
    assert found == ["Ada Lovelace", "Eve"]


def test_the_score_is_the_mean_probability_of_the_words(finder: Adapter) -> None:
    request = extract_request(["Ada Lovelace"], threshold=0.0)
    prepared = finder.prepare(request)
    output = {"tags": np.int32([0, 1, 2, 0]), "scores": np.float32([0.9, 0.8, 0.6, 0.9])}
    entity = finder.finish(request, prepared, [output]).items[0].entities[0]
    assert (entity.text, entity.label) == ("Ada Lovelace", "NAME")
    assert entity.score == pytest.approx(0.7)


def test_findings_under_the_threshold_are_left_out(finder: Adapter) -> None:
    score = extract(finder, ["dimly"], threshold=0.0)[0].entities[0].score
    assert 0.5 < score < 0.75
    assert _found(finder, "dimly Ada") == ["dimly", "Ada"]
    assert _found(finder, "dimly Ada", threshold=score + 0.01) == ["Ada"]


def test_only_the_labels_asked_for_come_back_in_any_case(finder: Adapter) -> None:
    assert _found(finder, "Ada in York", labels=["place"]) == ["York"]
    assert _found(finder, "Ada in York", labels=["PLACE", "Name"]) == ["Ada", "York"]


def test_an_unknown_label_is_an_error_with_those_it_knows(finder: Adapter) -> None:
    with pytest.raises(InvalidInput, match=r"does not know \['person'\]; it finds: NAME, PLACE"):
        finder.prepare(extract_request(["Ada"], ["person", "name"]))


def test_nothing_found_is_an_empty_list(finder: Adapter) -> None:
    item = extract(finder, ["hello world"])[0]
    assert item.entities == []
    assert (item.num_tokens, item.truncated, item.read_to) == (4, False, None)


def test_one_text_s_failure_leaves_the_others(finder: Adapter) -> None:
    request = extract_request(["Ada", "Bob", "Eve"])
    prepared = finder.prepare(request)
    good = {"tags": np.int32([0, 1, 0]), "scores": np.float32([0.9, 0.9, 0.9])}
    bad = good | {"scores": np.float32([0.9, np.inf, 0.9])}
    items = finder.finish(request, prepared, [good, InferenceError("it failed"), bad]).items
    assert [len(item.entities) for item in items] == [1, 0, 0]
    assert items[0].error is None
    assert items[1].error.message == "it failed"
    assert items[2].error.code == "non_finite_output"
    assert "SIE_MCP_DTYPE=bfloat16 or float32" in items[2].error.message


def test_it_extracts_and_does_nothing_else(finder: Adapter) -> None:
    with pytest.raises(InvalidInput, match="it can extract, nothing else"):
        finder.prepare(encode_request(["Ada"]))


def test_the_card_lists_the_labels(finder: Adapter) -> None:
    assert finder.card.labels == ["NAME", "PLACE"]
    assert finder.card.primitives == ["extract"]
    assert set(DOUBTED.values()) == {"B-NAME"}


def test_items_keep_their_ids(finder: Adapter) -> None:
    request = wire.ExtractRequest(items=[wire.Item(id="x", text="Ada")])
    prepared = finder.prepare(request)
    output = {"tags": np.int32([0, 1, 0]), "scores": np.float32([0.9, 0.9, 0.9])}
    assert finder.finish(request, prepared, [output]).items[0].id == "x"
