"""Categories that name their parents to categories with paths. Knows no file format."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sie_mcp.catalogue.notes import NOTHING, Notes
from sie_mcp.catalogue.taxonomy import MAX_LEVELS, MAX_NODES, SEPARATOR, Node
from sie_mcp.errors import InvalidInput

_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Child:
    """A category as it was written: `parent` is the id of the one above, "" at the top."""

    id: str
    name: str
    parent: str
    where: str
    notes: Notes = NOTHING


def with_paths(name: str, children: Iterable[Child]) -> Iterator[Node]:
    """Yield the categories with their paths, in the order given.

    Raises:
        InvalidInput: an id twice or none, a parent that is not there, a circle, too many or deep.
    """
    known: dict[str, Child] = {}
    for child in children:
        if not child.id.strip():
            raise InvalidInput(f"{child.where}: {_shown(child.name)} has no id; give it one")
        if child.id in known:
            raise InvalidInput(
                f"{child.where}: {_shown(child.id)} is there already, in {known[child.id].where}; "
                "keep one"
            )
        known[child.id] = child
        if len(known) > MAX_NODES:
            raise InvalidInput(f"{name} has more than {MAX_NODES:,} categories; split it")
    paths: dict[str, str] = {}
    for child in known.values():
        yield Node(_path(child, known, paths), child.where, child.id, child.notes)


def _path(child: Child, known: dict[str, Child], paths: dict[str, str]) -> str:
    """Return a category's path; those above it are worked out once."""
    above: list[Child] = []
    at = child
    while at.id not in paths:
        if any(at.id == one.id for one in above):
            circle = " > ".join(_shown(one.id) for one in above[:5])
            raise InvalidInput(f"{child.where}: its parents go in a circle: {circle}; break it")
        if len(above) == MAX_LEVELS:
            raise InvalidInput(f"{child.where}: more than {MAX_LEVELS} levels, the limit")
        above.append(at)
        if not at.parent:
            break
        if at.parent not in known:
            raise InvalidInput(
                f"{at.where}: its parent {_shown(at.parent)} is not there; add it, or leave the "
                "parent out"
            )
        at = known[at.parent]
    for one in reversed(above):
        levels = [paths[one.parent]] if one.parent else []
        # A ">" in a name would read as a level.
        paths[one.id] = SEPARATOR.join([*levels, one.name.replace(">", "›")])
    return paths[child.id]


def _shown(id_: str) -> str:
    return repr(id_[:_SHOWN_CHARS])
