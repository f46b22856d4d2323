"""What a node of a JSON schema comes to: references followed, and null left out. Knows no records.

Libraries write an optional field as `anyOf` of its type and null, and a class as a reference to
`$defs`. A node is looked at when it is reached, never before: definitions that name each other
several times each would come to more than any memory holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sie_mcp.errors import InvalidInput

Node = Mapping[str, Any]
_PLACES = ("$defs", "definitions")
_CHOICES = ("anyOf", "oneOf", "allOf")
_NULL = {"type": "null"}


@dataclass(frozen=True, slots=True)
class References:
    """The definitions of one schema, under what references call them."""

    targets: Mapping[str, Any]

    @classmethod
    def of(cls, schema: Node) -> "References":
        """Take the definitions of a whole schema."""
        held = {place: schema.get(place) for place in _PLACES}
        return cls(
            {
                f"#/{place}/{_escaped(name)}": node
                for place, nodes in held.items()
                if isinstance(nodes, Mapping)
                for name, node in nodes.items()
            }
        )

    def plain(self, node: Any, where: str) -> Node:
        """Return a node without a reference, a choice of one, or definitions.

        Raises:
            InvalidInput: no object, or a reference that leads nowhere or in a circle.
        """
        followed: set[str] = set()
        while True:
            if not isinstance(node, Mapping):
                raise InvalidInput(f"{where} must be a JSON object, not {type(node).__name__}")
            if "$ref" in node:
                target = self._target(node["$ref"], followed, where)
                node = _merged(target, node, "$ref")
            elif (key := next(filter(node.__contains__, _CHOICES), None)) is not None:
                node = _merged(_only(node[key], f"{where}.{key}"), node, key)
            else:
                return {key: value for key, value in node.items() if key not in _PLACES}

    def _target(self, name: Any, followed: set[str], where: str) -> Any:
        if not isinstance(name, str) or name not in self.targets:
            raise InvalidInput(
                f"{where}: $ref {str(name)[:80]!r} is none of the schema's own $defs"
            )
        if name in followed:
            raise InvalidInput(f"{where}: $ref {name[:80]!r} leads to itself")
        followed.add(name)
        return self.targets[name]


def _merged(target: Any, node: Node, key: str) -> Any:
    """Return what a reference means; what stands beside it counts."""
    if not isinstance(target, Mapping):
        return target
    return {**target, **{name: value for name, value in node.items() if name != key}}


def _only(options: Any, where: str) -> Any:
    left = [one for one in options if one != _NULL] if isinstance(options, list) else []
    if len(left) != 1:
        raise InvalidInput(f"{where} has {len(left)} types; one works, with null beside it or not")
    return left[0]


def _escaped(name: str) -> str:
    """Return a name as pointers write it (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
