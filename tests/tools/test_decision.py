"""Words and branches: what decides between categories, on numbers made by hand."""

import numpy as np
import pytest

from sie_mcp.tools.decision import (
    EXAMPLE_WEIGHTS,
    PRODUCTS,
    Branches,
    fuse,
    mean_share,
    probabilities,
    standardise,
)
from sie_mcp.tools.words import WordIndex, words

PATHS = [("B",), ("B", "y"), ("A",), ("A", "x"), ("A", "x", "deep"), ("C", "only", "leaf")]


def test_plurals_are_the_same_word() -> None:
    assert words("Forks, Berries, boxes & dresses") == ["fork", "berry", "box", "dress"]
    assert words("GLASS gas is") == ["glass", "gas", "is"]


def test_a_name_of_the_same_words_is_like_a_text_and_others_are_not() -> None:
    found = WordIndex(["Table Forks", "Table Knives", "Lamps"]).similarities(["a fork", "nothing"])
    assert found.shape == (2, 3)
    assert found[0, 0] > 0.5 and found[0, 1:].tolist() == [0, 0]
    assert not found[1].any()


def test_rare_words_count_more_than_common_ones() -> None:
    index = WordIndex(["steel fork", "steel pan", "steel pot", "lamp"])
    (row,) = index.similarities(["steel fork"])
    assert row[0] == pytest.approx(1) and 0 < row[1] < 0.5


@pytest.mark.parametrize(
    ("prefix", "expected"), [(("A",), 0.6), (("A", "x"), 0.4), (("C", "only"), 0.1), (("B",), 0.3)]
)
def test_the_share_of_a_branch_is_that_of_all_its_nodes(
    prefix: tuple[str, ...], expected: float
) -> None:
    share = np.array([0.2, 0.1, 0.2, 0.1, 0.3, 0.1])
    assert Branches(PATHS).share(share, prefix) == pytest.approx(expected)


def test_a_node_among_likely_ones_beats_a_lone_one_that_scores_the_same() -> None:
    scores = np.array([[0.0, 2.0, 1.5, 2.0, 1.5, 0.0]])
    decided = Branches(PATHS).decide(scores)[0]
    assert decided[3] > decided[1]
    assert int(np.argmax(decided)) == 3


def test_equal_scores_stay_equal_and_one_node_is_certain() -> None:
    assert standardise(np.ones((2, 3))).tolist() == [[0, 0, 0]] * 2
    alone = Branches([("A",)]).decide(fuse([np.ones((1, 1))], np.zeros((1, 1))))
    assert probabilities(alone).tolist() == [[1.0]]


def test_models_are_fused_in_deviations_so_that_no_scale_wins() -> None:
    first, second = np.array([[1.0, 0.0, 0.5]]), np.array([[0.0, 100.0, 50.0]])
    fused = fuse([first, second], np.zeros((1, 3)))
    assert fused[0] == pytest.approx([0, 0, 0], abs=1e-6)


def test_the_nearest_example_of_a_node_raises_it_and_far_ones_do_nothing() -> None:
    branches = Branches([("a",), ("b",), ("c",)])
    raised = branches.add_examples(np.zeros((1, 3)), np.array([[0.7, 0.3, 0.1]]), [1, 1, 2])
    assert raised[0] == pytest.approx([0, sum(EXAMPLE_WEIGHTS) * 0.5, 0])


def test_confidence_rises_with_the_share_and_stays_a_probability() -> None:
    found = [PRODUCTS.confidence(share) for share in (0.0, 0.01, 0.1, 0.5, 1.0)]
    assert found == sorted(found) and len(set(found)) == 5
    assert 0 <= found[0] < 0.01 and 0.8 < found[-1] < 1


def test_a_share_is_as_good_as_every_model_thinks_it_is() -> None:
    assert mean_share([0.25]) == pytest.approx(0.25)
    assert mean_share([0.9, 0.1]) == pytest.approx(0.3) and mean_share([0.9, 0.0]) < 0.001


def test_an_example_speaks_for_its_node_its_parent_and_its_top_category() -> None:
    branches = Branches([*PATHS, ("A", "x", "beside")])
    raised = branches.add_examples(
        np.zeros((1, 7)), np.array([[0.7]]), [4], weights=(10.0, 4.0, 1.0)
    )
    assert raised[0] == pytest.approx([0, 0, 0.5, 0.5, 7.5, 0, 2.5])


def test_an_example_at_the_top_speaks_for_itself_alone() -> None:
    raised = Branches(PATHS).add_examples(np.zeros((1, 6)), np.array([[0.7, 0.9]]), [4, 0])
    assert raised[0, :2] == pytest.approx([sum(EXAMPLE_WEIGHTS) * 0.7, 0])


def test_the_nodes_of_a_flat_list_are_no_branches_that_count_again() -> None:
    scores = np.array([[0.0, 2.0, 1.0]])
    decided = Branches([("a",), ("b",), ("c",)]).decide(scores)
    assert decided.tolist() == scores.tolist()
