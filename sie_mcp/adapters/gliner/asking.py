"""What a request looks for: labels of entities, and the relations that may hold between them."""

from typing import NamedTuple

from sie_mcp import wire
from sie_mcp.adapters.label_prompts import check_labels
from sie_mcp.errors import InvalidInput
from sie_mcp.wire_structure import Structure


class Wanted(NamedTuple):
    """Entities and relations, each named once."""

    labels: list[str]
    relations: list[str]


def wanted(params: wire.ExtractParams, name: str, *, has_relations: bool) -> Wanted:
    """Return what is looked for.

    Args:
        params: Of the request: labels, or a structure of entities and relations.
        name: Of the model, for errors.
        has_relations: The model links entities.

    Raises:
        InvalidInput: nothing, both, or what the model does not do; says what would work.
    """
    structure = params.options.structure
    if structure is None:
        return Wanted(check_labels(params.labels, name), [])
    if not has_relations:
        raise InvalidInput(f"{name} finds entities alone: send labels, not structure")
    if params.labels is not None:
        raise InvalidInput("send labels or structure, not both")
    _check(structure, name)
    if not structure.entities:
        raise InvalidInput(
            f"{name} links entities that you name: add entities, e.g. 'person', 'company'"
        )
    return Wanted(check_labels(list(structure.entities), name), list(structure.relations))


def _check(structure: Structure, name: str) -> None:
    if structure.records or structure.classifications:
        raise InvalidInput(f"{name} finds entities and relations; a GLiNER2 model does the rest")
    described = {**structure.entities, **structure.relations}
    if told := [one for one, description in described.items() if description]:
        raise InvalidInput(f"{name} reads names alone; leave out the description of {told[0]!r}")
