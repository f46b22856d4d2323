"""Which sentences are worth keeping, and which fit."""

from sie_mcp.tools.selection import fuse, select, worth_keeping

ONE_TEXT = [0] * 9


def test_one_sentence_that_stands_out_is_kept_with_its_neighbours_only() -> None:
    scores = [0.0, 0.1, 0.0, 0.1, 5.0, 0.1, 0.0, 0.1, 0.0]
    assert worth_keeping(scores, ONE_TEXT) == {3, 4, 5}


def test_neighbours_in_another_text_are_none() -> None:
    scores = [0.0, 0.1, 0.0, 0.1, 5.0, 0.1, 0.0, 0.1, 0.0]
    assert worth_keeping(scores, [0, 0, 0, 0, 1, 2, 2, 2, 2]) == {4}


def test_where_all_are_alike_all_are_worth_it() -> None:
    assert worth_keeping([1.0] * 9, ONE_TEXT) == set(range(9))


def test_what_is_not_worth_it_is_left_out_though_it_fits() -> None:
    assert select([1] * 4, [4.0, 1.0, 3.0, 2.0], [0] * 4, 100, {0, 2}) == [0, 2]


def test_without_a_choice_the_budget_is_filled() -> None:
    assert select([1] * 4, [4.0, 1.0, 3.0, 2.0], [0] * 4, 3) == [0, 1, 2]


def test_scores_on_any_scale_weigh_the_same() -> None:
    meaning, words = [0.1, 0.2, 0.3], [9.0, 0.0, 1.0]
    small = fuse(meaning, words)
    large = fuse([1_000 * score for score in meaning], words)
    assert [round(a - b, 9) for a, b in zip(small, large, strict=True)] == [0, 0, 0]


def test_scores_that_are_all_alike_say_nothing() -> None:
    assert fuse([0.1 + 0.2, 0.3, 0.3], [1.0, 1.0, 1.0]) == [0.0, 0.0, 0.0]
