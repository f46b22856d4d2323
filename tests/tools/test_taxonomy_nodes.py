"""Nodes of a taxonomy: found by id or path, described with what is right below them."""

import pytest

from sie_mcp.catalogue.taxonomy import Node, build, from_paths
from sie_mcp.tools.taxonomy_nodes import describe_node, paths_like

TREE = from_paths(["A > B > C", "A > B > D", "A > E", "F"])
WITH_IDS = build("own", [Node("A", "1", "x"), Node("A > B", "2", "x-1")])


@pytest.mark.parametrize("node", ["A > B", "a>b", " A  >  B "])
def test_a_node_that_is_only_part_of_paths_is_described_too(node: str) -> None:
    found = describe_node(TREE, node, 1_000)
    assert found is not None
    assert (found.path, found.parent) == ("A > B", "A")
    assert [child.name for child in found.children] == ["C", "D"]


def test_the_top_and_a_leaf() -> None:
    top = describe_node(TREE, "", 1_000)
    assert top is not None and top.path is None
    assert [(child.name, child.num_below) for child in top.children] == [("A", 3), ("F", None)]
    leaf = describe_node(TREE, "F", 1_000)
    assert leaf is not None and leaf.children == [] and leaf.parent is None


def test_ids_name_nodes_where_there_are_any() -> None:
    found = describe_node(WITH_IDS, "x", 1_000)
    assert found is not None and found.category_id == "x"
    assert found.children[0].category_id == "x-1"
    assert describe_node(WITH_IDS, "x-2", 1_000) is None
    assert describe_node(TREE, "A > C", 1_000) is None


def test_children_that_do_not_fit_are_counted() -> None:
    found = describe_node(from_paths([f"child {n}" for n in range(100)]), "", 100)
    assert found is not None
    assert len(found.children) + (found.omitted or 0) == 100


def test_what_was_typed_goes_on_by_one_level() -> None:
    assert paths_like(TREE, "") == ["A", "F"]
    assert paths_like(TREE, "a") == ["A"]
    assert paths_like(TREE, "A > ") == ["A > B", "A > E"]
    assert paths_like(TREE, "A > B > d") == ["A > B > D"]
