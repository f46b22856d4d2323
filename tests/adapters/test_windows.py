"""Long texts: windows that overlap, one list of findings, and stopping after the first window."""

import itertools
from pathlib import Path

import pytest

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.windows import make_windows, merge
from tests.names import save_name_finder
from tests.running import extract, load
from tests.tiny import MAX_LENGTH

NUM_WORDS = 1500
ROOM = MAX_LENGTH - 2
# Every border between the first window and the rest, and the places that the first two share.
STEP = make_windows(NUM_WORDS, ROOM)[1].first


@pytest.fixture
def finder(tmp_path: Path) -> Adapter:
    save_name_finder(tmp_path)
    return load(tmp_path)


def _text(names: dict[int, str]) -> str:
    words = ["the"] * NUM_WORDS
    for place, name in names.items():
        words[place : place + len(name.split())] = name.split()
    return " ".join(words)


def test_names_anywhere_in_a_long_text_are_found_once_each(finder: Adapter) -> None:
    border = 3 * STEP + ROOM  # Where the fourth window ends.
    names = {0: "ada", 383: "bob", 384: "carl", 385: "dora", 1000: "eve", 1499: "jose"}
    names[border - 1] = "ada lovelace"
    text = _text(names)
    item = extract(finder, [text])[0]
    assert [entity.text for entity in item.entities] == [names[place] for place in sorted(names)]
    assert all(text[one.start : one.end] == one.text for one in item.entities)
    assert (item.truncated, item.read_to) == (False, None)
    assert item.num_tokens > NUM_WORDS


def test_a_name_of_two_words_is_whole_across_every_border(finder: Adapter) -> None:
    for place in (STEP - 1, STEP, ROOM - 1, ROOM, STEP + ROOM - 1):
        item = extract(finder, [_text({place: "ada lovelace"})])[0]
        assert [entity.text for entity in item.entities] == ["ada lovelace"], place


def test_a_word_cut_by_a_border_is_read_by_its_first_piece(finder: Adapter) -> None:
    # "theada" is "the" and "##ada": a window that starts inside must not see a name.
    assert extract(finder, ["theada " * NUM_WORDS])[0].entities == []
    # "adaa" is "ada" and "##a": a window that ends inside must not cut the name.
    found = extract(finder, ["x " + "adaa " * 500])[0].entities
    assert len(found) == 500
    assert {entity.text for entity in found} == {"adaa"}


def test_without_windowing_only_the_first_window_is_read(finder: Adapter) -> None:
    text = _text({0: "ada", ROOM - 1: "bob", ROOM: "carl", 1000: "eve"})
    item = extract(finder, [text], windowing=False)[0]
    assert [entity.text for entity in item.entities] == ["ada", "bob"]
    assert item.truncated
    assert item.read_to == text.index("carl") - 1
    assert item.num_tokens == MAX_LENGTH


def test_reading_stops_between_words(finder: Adapter) -> None:
    text = "x " + "theada " * 200
    item = extract(finder, [text], windowing=False)[0]
    assert item.read_to is not None
    assert text[item.read_to] == " "


def test_a_short_text_is_not_truncated_without_windowing(finder: Adapter) -> None:
    item = extract(finder, ["ada"], windowing=False)[0]
    assert (item.truncated, item.read_to) == (False, None)


@pytest.mark.parametrize("num_tokens", [1, 9, 10, 11, 57, 1000])
def test_windows_cover_everything_and_overlap(num_tokens: int) -> None:
    windows = make_windows(num_tokens, 10)
    assert windows[0].first == 0
    assert windows[-1].last == num_tokens
    for one, other in itertools.pairwise(windows):
        assert 0 < one.last - other.first <= 10
        assert one.first < other.first
    assert all(0 < one.last - one.first <= 10 for one in windows)


def test_a_window_of_one_token_still_moves_on() -> None:
    assert len(make_windows(5, 1)) == 5


def _entity(start: int, end: int, score: float, label: str = "NAME") -> wire.Entity:
    return wire.Entity(text="x" * (end - start), label=label, score=score, start=start, end=end)


def test_of_equal_findings_the_best_score_stays() -> None:
    assert merge([_entity(3, 6, 0.5), _entity(3, 6, 0.9)]) == [_entity(3, 6, 0.9)]


def test_of_overlapping_findings_of_one_label_the_longer_stays() -> None:
    cut, whole = _entity(3, 6, 0.9), _entity(3, 12, 0.6)
    assert merge([cut, whole]) == [whole]
    assert merge([whole, _entity(8, 12, 0.9)]) == [whole]


def test_other_labels_and_neighbours_stay() -> None:
    found = [_entity(3, 6, 0.5, "PLACE"), _entity(3, 6, 0.5), _entity(6, 8, 0.5)]
    assert merge(reversed(found)) == [found[1], found[0], found[2]]


def test_a_long_finding_under_the_threshold_does_not_push_out_a_short_one(
    tmp_path: Path,
) -> None:
    # The first window ends after "ada"; the second sees "ada dimly", which it doubts.
    save_name_finder(tmp_path, {"ada": "B-NAME"}, doubted={"dimly": "I-NAME"})
    text = _text({ROOM - 1: "ada dimly"})
    finder = load(tmp_path)
    doubted = extract(finder, [text])[0].entities
    assert [one.text for one in doubted] == ["ada dimly"]
    sure = extract(finder, [text], threshold=doubted[0].score + 0.01)[0].entities
    assert [one.text for one in sure] == ["ada"]


def test_many_findings_are_merged_in_little_time() -> None:
    # 30,000 pairs to compare with each other would take minutes.
    found = [_entity(3 * place, 3 * place + 2, 0.5) for place in range(30_000)]
    assert len(merge([*found, *found])) == 30_000
