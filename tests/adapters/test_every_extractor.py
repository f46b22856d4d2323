"""What holds of every model that extracts by labels, whatever its scores: windows and offsets."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sie_mcp import wire
from tests.adapters.stub_scores import FAMILIES, LOGIT, NAMES, found, make, names_of
from tests.running import extract_request

SCORE = pytest.approx(0.9, abs=0.01)
# Words 0 and 1,499, around the borders of windows of 384 words, and far from all.
PLACES = {0: "Ann", 382: "Bob", 383: "Ada Lovelace", 385: "Carl", 1000: "Dora", 1499: "Eve"}
WORDS = st.sampled_from(
    [
        *sorted(NAMES),
        "the",
        "İstanbul",
        "👩‍👩‍👧",
        "e\u0301",
        "我在",
        "ไทย",
        "x-y",
        "a@b.c",
        "\u200b",
        ",",
    ]
)
SPACES = st.sampled_from([" ", "  ", "\n", "\t ", "\u3000"])
TEXTS = st.lists(st.tuples(WORDS, SPACES), max_size=12).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
LABELS = ["name", "名前 (of: a person) <<ENT>>\n–", "Name", "x", "<<SEP>>", "e\u0301 👩‍👧"]
_QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def adapters() -> Any:
    with tempfile.TemporaryDirectory() as place:

        @functools.cache
        def adapter(family: str) -> Any:
            folder = Path(place) / family
            folder.mkdir()
            return make(family, folder)

        yield adapter


def check(item: wire.ExtractedItem, text: str) -> list[str]:
    """Hold every place against the caller's own text; return the entities in order."""
    places = [(one.start, one.end, one.label) for one in item.entities]
    assert places == sorted(set(places))
    assert all(text[one.start : one.end] == one.text for one in item.entities)
    assert all(text[one.head_start : one.head_end] == one.head for one in item.relations)
    assert all(text[one.tail_start : one.tail_end] == one.tail for one in item.relations)
    return [one.text for one in item.entities]


@pytest.mark.parametrize("family", FAMILIES)
def test_names_at_the_ends_and_across_borders_are_found_once(family: str, adapters: Any) -> None:
    """Case T56, its first half."""
    words = ["the"] * 1500
    for place, name in PLACES.items():
        words[place : place + len(name.split())] = name.split()
    text = " ".join(words)
    (item,) = found(adapters(family), extract_request([text], ["x", "name"]), "name")
    assert check(item, text) == [PLACES[place] for place in sorted(PLACES)]
    assert [one.score for one in item.entities] == [SCORE] * len(PLACES)
    assert (item.truncated, item.read_to) == (False, None)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_name_of_two_words_is_whole_wherever_a_window_ends(family: str, adapters: Any) -> None:
    adapter = adapters(family)
    words = ["the"] * 900
    request = extract_request([" ".join(words)], ["name"])
    windows = adapter.prepare(request).notes.readings[0].windows
    assert len(windows) > 1
    for border in {one.first for one in windows} | {one.last for one in windows}:
        for place in range(max(border - 2, 0), min(border + 2, 898)):
            text = " ".join([*words[:place], "Ada", "Lovelace", *words[place + 2 :]])
            (item,) = found(adapter, extract_request([text], ["name"]), "name")
            assert check(item, text) == ["Ada Lovelace"], place


@pytest.mark.parametrize("family", FAMILIES)
@_QUICK
@given(text=TEXTS, label=st.sampled_from(LABELS))
def test_a_text_holds_each_entity_where_it_says(
    family: str, adapters: Any, text: str, label: str
) -> None:
    """Case T55, for any text and label."""
    adapter = adapters(family)
    # Labels that are asked for twice are one.
    (item,) = found(adapter, extract_request([text], [*LABELS, label]), label)
    entities = check(item, text)
    assert {one.label for one in item.entities} <= {label}
    words = adapter.prepare(extract_request([text], LABELS)).notes.readings[0].words
    seen = [text[start:end] for start, end in words]
    names = [(words[first][0], words[last - 1][1]) for first, last in names_of(seen)]
    assert entities == [text[start:end] for start, end in names]
    assert any(name in seen for name in NAMES) == bool(entities)


@pytest.mark.parametrize("family", [one for one in FAMILIES if one != "gliner2"])
def test_a_hundred_labels_are_all_asked_for(family: str, adapters: Any) -> None:
    labels = [f"x{n}" for n in range(120)]
    for label in (labels[0], labels[63], labels[-1]):
        (item,) = found(adapters(family), extract_request(["Ann met Bob"], labels), label)
        assert [(one.text, one.label) for one in item.entities] == [("Ann", label), ("Bob", label)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_label_s_own_threshold_wins(family: str, adapters: Any) -> None:
    for limits, expected in (
        ({"threshold": 0.95}, []),
        ({"threshold": 0.95, "thresholds": {"name": 0.8}}, ["Ann"]),
        ({"threshold": 0.1, "thresholds": {"name": 0.95}}, []),
        ({"threshold": 0.95, "thresholds": {"x": 0.8}}, []),
    ):
        request = extract_request(["Ann"], ["name", "x"], **limits)
        (item,) = found(adapters(family), request, "name", LOGIT)
        assert check(item, "Ann") == expected, limits


@pytest.mark.parametrize("family", ["relex-span", "relex-token"])
def test_a_link_that_two_windows_see_is_found_once(family: str, adapters: Any) -> None:
    names = {0: "Ann", 130: "Ada Lovelace", 140: "Bob", 150: "Carl"}
    words = ["the"] * 700
    for place, name in names.items():
        words[place : place + len(name.split())] = name.split()
    text = " ".join(words)
    structure = {"entities": {"x": "", "name": ""}, "relations": {"knows": ""}}
    request = extract_request([text], None, structure=structure)
    readings = adapters(family).prepare(request).notes.readings
    assert readings[0].windows[1].first < 130 and readings[0].windows[0].last > 150
    (item,) = found(adapters(family), request, "name")
    assert check(item, text) == list(names.values())
    pairs = [(one.head, one.relation, one.tail) for one in item.relations]
    assert pairs == [
        ("Ann", "knows", "Ada Lovelace"),
        ("Ada Lovelace", "knows", "Bob"),
        ("Bob", "knows", "Carl"),
    ]
