"""Taxonomies as data: the built-in ones, and users' own from text, tables, JSON or lists.

A node is a path of names from the top level down. Nothing here knows models or vectors.
"""

import gzip
import hashlib
import importlib.resources
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

from sie_mcp.catalogue.notes import NOTHING, Notes
from sie_mcp.errors import InvalidInput

SEPARATOR = " > "
MAX_NODES = 100_000
MAX_LEVELS = 32
MAX_NAME_CHARS = 500
# Translations have the ids of the English one. A name that one parent has twice is told apart by
# its id in parentheses.
BUILT_IN = {
    "shopify": "shopify.en.tsv.gz",
    "shopify.de": "shopify.de.tsv.gz",
    "shopify.fr": "shopify.fr.tsv.gz",
    "shopify.ja": "shopify.ja.tsv.gz",
    "google": "google.en.tsv.gz",
    "bestbuy": "bestbuy.en.tsv.gz",
}

_SEPARATOR = re.compile(r"\s*>\s*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# What must not come twice: an id or a path.
Key = TypeVar("Key", str, tuple[str, ...])


@dataclass(frozen=True)
class Taxonomy:
    """Categories in a fixed order.

    Attributes:
        name: What to call it in a result.
        paths: For each node its names, top level first.
        ids: The nodes' own ids, or None when only paths were given.
        notes: The nodes' synonyms, descriptions and examples; empty when no node has any.
    """

    name: str
    paths: tuple[tuple[str, ...], ...]
    ids: tuple[str, ...] | None = None
    notes: tuple[Notes, ...] = ()

    @property
    def digest(self) -> str:
        """Identify the content: what the nodes are called and what is said of them, in order.

        Their examples are no part of it: vectors of nodes do not depend on them.
        """
        lines = ["\x1f".join(path) for path in self.paths]
        if any(one.texts for one in self.notes):
            lines += ["\x1f".join((*one.synonyms, "", one.description)) for one in self.notes]
        return hashlib.sha256("\x1e".join(lines).encode()).hexdigest()

    def id_of(self, path: tuple[str, ...]) -> str | None:
        """Return a node's id; None for a level that is only a part of longer paths, or no ids."""
        return self._id_by_path.get(path)

    @cached_property
    def _id_by_path(self) -> dict[tuple[str, ...], str]:
        return dict(zip(self.paths, self.ids, strict=True)) if self.ids else {}


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was written: `where` says where, for errors."""

    path: str
    where: str
    id: str | None = None
    notes: Notes = NOTHING


@cache
def built_in(name: str) -> Taxonomy:
    """Read a taxonomy that comes with the package; `name` is one of `BUILT_IN`."""
    file = importlib.resources.files("sie_mcp.catalogue") / "taxonomies" / BUILT_IN[name]
    lines = gzip.decompress(file.read_bytes()).decode().rstrip("\n").split("\n")
    rows = [line.split("\t") for line in lines]
    return build(name, [Node(path, f"line {n}", id_) for n, (id_, path) in enumerate(rows, 1)])


def from_paths(paths: Sequence[str], argument: str = "taxonomy") -> Taxonomy:
    """Take a list of paths, "A > B > C" each, or of plain labels; errors name the argument.

    Raises:
        InvalidInput: empty, a duplicate, or an empty level.
    """
    if not paths:
        raise InvalidInput(f"{argument} is empty; send at least one path such as A > B > C")
    return build("given", [Node(path, f"{argument}[{n}]") for n, path in enumerate(paths)])


def build(name: str, nodes: Iterable[Node]) -> Taxonomy:
    """Check nodes and make a taxonomy of them.

    Raises:
        InvalidInput: no nodes or too many, a duplicate, an empty level, ids for some only.
    """
    paths: dict[tuple[str, ...], str] = {}
    ids: dict[str, str] = {}
    notes: list[Notes] = []
    for node in nodes:
        _add(paths, _levels(node), node)
        if node.id is not None:
            _check_id(node.id, node.where)
            _add(ids, node.id, node)
        notes.append(node.notes)
        if len(paths) > MAX_NODES:
            raise InvalidInput(f"{name} has more than {MAX_NODES:,} categories; split it")
    if not paths:
        raise InvalidInput(f"{name} holds no categories")
    if ids and len(ids) != len(paths):
        missing = len(paths) - len(ids)
        raise InvalidInput(f"{name}: {missing:,} categories have no id; give ids to all or none")
    said = tuple(notes) if any(one is not NOTHING for one in notes) else ()
    return Taxonomy(name, tuple(paths), tuple(ids) if ids else None, said)


def _check_id(id_: str, where: str) -> None:
    if not id_.strip():
        raise InvalidInput(f"{where} has no id; give ids to all categories or to none")


def _add(seen: dict[Key, str], key: Key, node: Node) -> None:
    if key in seen:
        shown = key if isinstance(key, str) else SEPARATOR.join(key)
        raise InvalidInput(f"{node.where}: {shown!r} is there already, in {seen[key]}; keep one")
    seen[key] = node.where


def _levels(node: Node) -> tuple[str, ...]:
    levels = _SEPARATOR.split(node.path.strip())
    shown = SEPARATOR.join(levels)[:80]
    if not all(levels):
        raise InvalidInput(f"{node.where}: {shown!r} has an empty level; write A > B > C")
    if len(levels) > MAX_LEVELS:
        raise InvalidInput(f"{node.where}: {len(levels)} levels; the limit is {MAX_LEVELS}")
    if (length := max(map(len, levels))) > MAX_NAME_CHARS:
        raise InvalidInput(
            f"{node.where}: {shown!r}… has a name of {length:,} characters; "
            f"the limit is {MAX_NAME_CHARS}"
        )
    if _SURROGATE.search(node.path + (node.id or "")):
        raise InvalidInput(f"{node.where} holds a lone surrogate; send valid Unicode")
    return tuple(levels)
