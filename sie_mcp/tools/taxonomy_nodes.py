"""One node of a taxonomy, for reading along the tree: its path, its children, its neighbours.

A level that is only a part of longer paths is a node too, though nothing is classified into it.
"""

import difflib
import re

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.tools.result import Result, num_fitting, or_none

_SEPARATOR = re.compile(r"\s*>\s*")
MAX_NEAR = 3
# What is compared as a whole; a name that many nodes have, as "Accessories", is cut here.
_MAX_COMPARED = 200
Path = tuple[str, ...]


class ChildNode(Result):
    """A category right below; `num_below` counts all that are below it in turn."""

    category_id: str | None = None
    name: str
    num_below: int | None = None


class NodeResult(Result):
    """A node; `path` is missing at the top, whose children are the top categories."""

    taxonomy: str
    category_id: str | None = None
    path: str | None = None
    parent: str | None = None
    children: list[ChildNode]
    omitted: int | None = None


def describe_node(taxonomy: Taxonomy, node: str, max_tokens: int) -> NodeResult | None:
    """Describe the node of an id or a path, in any case; "" is the top, None stands for no node."""
    path = find_path(taxonomy, node)
    if path is None:
        return None
    ids = dict(zip(taxonomy.paths, taxonomy.ids, strict=True)) if taxonomy.ids else {}
    children = [
        ChildNode(category_id=ids.get(child), name=child[-1], num_below=or_none(below))
        for child, below in _children(taxonomy, path).items()
    ]
    shown = children[: num_fitting(children, max_tokens)]
    return NodeResult(
        taxonomy=taxonomy.name,
        category_id=ids.get(path),
        path=SEPARATOR.join(path) or None,
        parent=SEPARATOR.join(path[:-1]) or None,
        children=shown,
        omitted=or_none(len(children) - len(shown)),
    )


def find_path(taxonomy: Taxonomy, node: str) -> Path | None:
    """Return the path of a node that an id or a path names."""
    if not node.strip():
        return ()
    if taxonomy.ids and node in taxonomy.ids:
        return taxonomy.paths[taxonomy.ids.index(node)]
    wanted = [level.casefold() for level in _SEPARATOR.split(node.strip())]
    depth = len(wanted)
    beginnings = (path[:depth] for path in taxonomy.paths if len(path) >= depth)
    return next(
        (path for path in beginnings if [level.casefold() for level in path] == wanted), None
    )


def paths_like(taxonomy: Taxonomy, typed: str) -> list[str]:
    """Return the paths one level at a time: those that begin like what was typed, in any case."""
    start = typed.casefold()
    depth = typed.count(SEPARATOR.strip()) + 1
    levels = dict.fromkeys(SEPARATOR.join(path[:depth]) for path in taxonomy.paths)
    return [path for path in levels if path.casefold().startswith(start)]


def nodes_like(taxonomy: Taxonomy, wrong: str) -> list[str]:
    """Return the paths of nodes that a wrong path may have meant, nearest first."""
    wanted = wrong.strip().casefold()
    by_name: dict[str, list[str]] = {}
    for path in taxonomy.paths:
        by_name.setdefault(path[-1].casefold(), []).append(SEPARATOR.join(path))
    names = difflib.get_close_matches(_SEPARATOR.split(wanted)[-1], by_name, n=MAX_NEAR)
    near = [whole for name in names for whole in by_name[name]][:_MAX_COMPARED]
    matcher = difflib.SequenceMatcher(b=wanted)
    likeness: dict[str, float] = {}
    for whole in near:
        matcher.set_seq1(whole.casefold())
        likeness[whole] = matcher.ratio()
    return sorted(near, key=lambda whole: -likeness[whole])[:MAX_NEAR]


def _children(taxonomy: Taxonomy, path: Path) -> dict[Path, int]:
    """Return the nodes right below, in the taxonomy's order, and how many are below each."""
    depth = len(path) + 1
    found: dict[Path, int] = {}
    for other in taxonomy.paths:
        if len(other) >= depth and other[: depth - 1] == path:
            child = other[:depth]
            found[child] = found.get(child, 0) + (len(other) > depth)
    return found
