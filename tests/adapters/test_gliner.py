"""Entities of labels that the caller names, through the door that the engine uses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.errors import InferenceError, InputTooLong, InvalidInput
from tests.gliner_names import MAX_WORDS, save_gliner_of_names
from tests.running import encode_request, extract, extract_request, load, run

BOTH = ["name", "place"]


@pytest.fixture
def finder(tmp_path: Path) -> Adapter:
    save_gliner_of_names(tmp_path)
    return load(tmp_path)


def _found(adapter: Adapter, text: str, labels: Any = None, **options: Any) -> list[str]:
    item = extract(adapter, [text], labels or BOTH, **options)[0]
    for entity in item.entities:
        assert text[entity.start : entity.end] == entity.text
    return [entity.text for entity in item.entities]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann met Bob.", ["Ann", "Bob"]),
        ("", []),
        (" \n\t ", []),
        ("  \tCarl\n", ["Carl"]),
        ("İstanbul 👩‍👩‍👧 Dora", ["Dora"]),
        ("é Eve", ["Eve"]),
        ("e\u0301 Eve\u200b", ["Eve"]),
        ("Ada Lovelace, Ann", ["Ada Lovelace", "Ann"]),
        ("我在北京工作", ["北京"]),
    ],
)
def test_offsets_count_code_points_of_the_caller_s_own_string(finder, text, expected) -> None:
    """Case T55."""
    found = [one.removesuffix("\u200b") for one in _found(finder, text)]
    assert [one for one in found if one != "İstanbul"] == expected


def test_every_text_of_a_batch_has_its_own_offsets(finder: Adapter) -> None:
    """Case T55."""
    texts = ["Ann met Bob.", "", "  \tCarl\n", "é Eve"]
    for item, text in zip(extract(finder, texts, BOTH), texts, strict=True):
        assert [one.text for one in item.entities] == _found(finder, text)
        assert all(text[one.start : one.end] == one.text for one in item.entities)
    assert extract(finder, texts, BOTH)[1].num_tokens == 0


@pytest.mark.parametrize(
    ("unit", "encoding", "width"), [("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)]
)
def test_offsets_in_another_unit(finder: Adapter, unit: str, encoding: str, width: int) -> None:
    """Case T55, its last sentence."""
    text = "é 👩‍👩‍👧 Dora, Eve"
    item = extract(finder, [text], BOTH, offset_unit=unit)[0]
    raw = text.encode(encoding)
    found = [raw[one.start * width : one.end * width].decode(encoding) for one in item.entities]
    assert found == ["Dora", "Eve"]


def test_only_the_labels_asked_for_are_found(finder: Adapter) -> None:
    assert _found(finder, "Ann in Istanbul", ["place"]) == ["Istanbul"]
    assert _found(finder, "Ann in Istanbul", ["place", "name", "place"]) == ["Ann", "Istanbul"]
    entities = extract(finder, ["Ann in Istanbul"], ["name", "place"])[0].entities
    assert [one.label for one in entities] == BOTH


def test_labels_with_any_characters_come_back_as_they_were(finder: Adapter) -> None:
    labels = ["name", "name\n(of: a person) <<ENT>> – 名", "Name", "<<SEP>>"]
    entities = extract(finder, ["Ann"], labels, overlap="all")[0].entities
    # "Name" and the second begin with the token that the tiny model knows.
    assert [one.label for one in entities] == sorted(labels[:3])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (None, InvalidInput, "send labels"),
        (["name", " "], InvalidInput, r"labels\[1\] is ' '; a label needs a word"),
        (["\u200b"], InvalidInput, "nothing that tiny can read"),
        (["x " * 600], InputTooLong, r"label 'x x .*…' has 60[01] tokens; tiny reads labels of at"),
        ([f"x{n}" for n in range(1001)], InvalidInput, "1001 labels; at most 1000"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(finder, labels, error, message) -> None:
    with pytest.raises(error, match=message):
        finder.prepare(extract_request(["Ann"], labels))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": {"city": 0.3}}, "thresholds names 'city', which is not among the labels"),
        ({"top_k": 3}, "no option top_k; it has: threshold, thresholds, windowing"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(finder, options, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        finder.prepare(extract_request(["Ann"], BOTH, **options))


def test_it_extracts_and_does_nothing_else(finder: Adapter) -> None:
    with pytest.raises(InvalidInput, match="it can extract, nothing else"):
        finder.prepare(encode_request(["Ann"]))
    card = finder.card
    assert (card.primitives, card.outputs, card.labels) == (["extract"], ["entities"], None)


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_hundred_labels_are_dealt_out_to_prompts(finder: Adapter, place: str) -> None:
    others = [f"x{n}" for n in range(120)]
    labels = ["name", *others] if place == "first" else [*others, "name"]
    request = extract_request(["Ann met Bob."], labels)
    sequences = finder.prepare(request).sequences
    assert len(sequences) == 5  # 121 labels, at most 25 in a prompt.
    assert max(one.num_tokens for one in sequences) <= 256
    (item,) = run(finder, request).items
    assert [(one.text, one.label) for one in item.entities] == [("Ann", "name"), ("Bob", "name")]


def test_long_labels_never_take_more_than_half_of_a_sequence(tmp_path: Path) -> None:
    save_gliner_of_names(tmp_path, max_positions=64)
    adapter = load(tmp_path)
    labels = ["name", *(f"one two three four {n}" for n in range(20))]
    request = extract_request(["Ann met Bob. " * 20], labels)
    assert max(one.num_tokens for one in adapter.prepare(request).sequences) <= 64
    (item,) = run(adapter, request).items
    assert len(item.entities) == 40


def test_thresholds_are_overall_or_of_a_label(finder: Adapter) -> None:
    request = extract_request(["Ann in Istanbul"], BOTH, threshold=0.5, thresholds={"place": 0.8})
    prepared = finder.prepare(request)
    # Words by labels by start, end and inside: 0.7 as a probability.
    logits = np.full((3, 2, 3), -9.0, dtype=np.float32)
    logits[0, 0] = logits[2, 1] = np.log(0.7 / 0.3)
    (item,) = finder.finish(request, prepared, [{"logits": logits}]).items
    assert [one.text for one in item.entities] == ["Ann"]
    assert item.entities[0].score == pytest.approx(0.7)
    lower = extract_request(["Ann in Istanbul"], BOTH, threshold=0.5)
    (item,) = finder.finish(lower, prepared, [{"logits": logits}]).items
    assert [one.text for one in item.entities] == ["Ann", "Istanbul"]


def test_one_text_s_failure_leaves_the_others(finder: Adapter) -> None:
    request = extract_request(["Ann", "Bob", "Eve"], BOTH)
    prepared = finder.prepare(request)
    good = {"logits": np.full((1, 2, 3), 5.0, dtype=np.float32)}
    bad = {"logits": np.full((1, 2, 3), np.nan, dtype=np.float32)}
    items = finder.finish(request, prepared, [good, InferenceError("it failed"), bad]).items
    assert [len(one.entities) for one in items] == [1, 0, 0]
    assert items[1].error.message == "it failed"
    assert items[2].error.code == "non_finite_output"


def _long_text(names: dict[int, str], num_words: int = 1500) -> str:
    words = ["the"] * num_words
    for place, name in names.items():
        words[place : place + len(name.split())] = name.split()
    return " ".join(words)


def test_names_anywhere_in_a_long_text_are_found_once_each(finder: Adapter) -> None:
    """Case T56."""
    names = {0: "Ann", 385: "Carl", 1000: "Dora", 1499: "Eve", 383: "Ada Lovelace", 500: "Bob"}
    text = _long_text(names)
    (item,) = extract(finder, [text], BOTH)
    assert [one.text for one in item.entities] == [names[place] for place in sorted(names)]
    assert (item.truncated, item.read_to) == (False, None)


@pytest.mark.parametrize("place", [*range(330, 392), 700, 1498])
def test_a_name_of_two_words_is_whole_across_every_border(finder: Adapter, place: int) -> None:
    assert _found(finder, _long_text({place: "Ada Lovelace"})) == ["Ada Lovelace"]


def test_without_windows_reading_stops_at_a_word_and_says_where(finder: Adapter) -> None:
    """Case T56, its second half."""
    text = _long_text({0: "Ann", 383: "Bob", 384: "Carl"})
    (item,) = extract(finder, [text], BOTH, windowing=False)
    assert [one.text for one in item.entities] == ["Ann", "Bob"]
    assert item.truncated and text[: item.read_to].split() == text.split()[:MAX_WORDS]
    whole = extract(finder, [text[: item.read_to]], BOTH, windowing=False)[0]
    assert (whole.truncated, whole.read_to) == (False, None)


def test_a_word_without_end_is_cut_and_the_words_around_it_are_read(finder: Adapter) -> None:
    text = f"Ann {'x' * 20_000} Bob"
    assert _found(finder, text) == ["Ann", "Bob"]
    assert isinstance(extract(finder, [text], BOTH)[0], wire.ExtractedItem)
