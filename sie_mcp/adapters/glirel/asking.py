"""What a request asks: the relations by name, and each item's text with its entities' places."""

from itertools import pairwise

from sie_mcp import wire
from sie_mcp.adapters.glirel.reading import Place
from sie_mcp.errors import InvalidInput

# Of a window: 16,256 pairs.
MAX_ENTITIES = 128


def wanted_relations(params: wire.ExtractParams, name: str) -> list[str]:
    """Return the relations to judge.

    Raises:
        InvalidInput: none, or something else too; says what would work.
    """
    structure = params.options.structure
    if params.labels is not None or structure is None:
        raise InvalidInput(
            f"{name} finds relations: send options.structure.relations, e.g. {{'works for': ''}}, "
            "and each item's spans; no labels"
        )
    if structure.records or structure.classifications or structure.entities:
        raise InvalidInput(
            f"{name} finds relations alone, between the spans that each item gives: "
            "[{'start': 0, 'end': 3}, …]; leave out the rest of structure"
        )
    if not structure.relations:
        raise InvalidInput(f"{name} finds the relations that you name; send at least one")
    for relation, description in structure.relations.items():
        if description:
            raise InvalidInput(
                f"{name} reads names alone; leave out the description of {relation!r}"
            )
    return list(structure.relations)


def given_spans(item: wire.Item, index: int, *, marks: bool) -> tuple[str, list[Place]]:
    """Return an item's text and its entities' places, each once, in order.

    Raises:
        InvalidInput: no text, no spans, one outside the text, or where `marks` stand around
            entities one that overlaps another.
    """
    if item.text is None or item.spans is None:
        raise InvalidInput(
            f"items[{index}] needs a text and spans, the places of its entities in code points: "
            "{'text': '…', 'spans': [{'start': 0, 'end': 3}, …]}"
        )
    spans = sorted({(one.start, one.end) for one in item.spans})
    for start, end in spans:
        if not start < end <= len(item.text):
            raise InvalidInput(
                f"items[{index}] has a span [{start}, {end}); it must be of at least one character "
                f"of the text, which has {len(item.text)}"
            )
    for (start, end), (later, stop) in pairwise(spans):
        if marks and later < end:
            raise InvalidInput(
                f"items[{index}] has spans [{start}, {end}) and [{later}, {stop}) that overlap; "
                "this model reads entities that are apart"
            )
    return item.text, spans
