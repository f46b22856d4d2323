"""Places in a text, counted as the caller's language counts: code points, UTF-16 units or bytes."""

from sie_mcp import wire

_ENCODINGS = {"utf16": ("utf-16-le", 2), "byte": ("utf-8", 1)}


def in_unit(item: wire.ExtractedItem, text: str, unit: wire.OffsetUnit) -> wire.ExtractedItem:
    """Return an item whose places, counted in code points of its text, are in another unit."""
    if unit == "code_point":
        return item
    places = {place for one in item.entities for place in (one.start, one.end)}
    places |= {place for one in item.relations for place in _ends(one).values()}
    if item.read_to is not None:
        places.add(item.read_to)
    counted = _count(text, places, *_ENCODINGS[unit])
    entities = [
        one.model_copy(update={"start": counted[one.start], "end": counted[one.end]})
        for one in item.entities
    ]
    relations = [
        one.model_copy(update={name: counted[place] for name, place in _ends(one).items()})
        for one in item.relations
    ]
    read_to = None if item.read_to is None else counted[item.read_to]
    update = {"entities": entities, "relations": relations, "read_to": read_to}
    return item.model_copy(update=update)


def _ends(relation: wire.Relation) -> dict[str, int]:
    """Return the places of a relation that are known, by their names."""
    places = {
        "head_start": relation.head_start,
        "head_end": relation.head_end,
        "tail_start": relation.tail_start,
        "tail_end": relation.tail_end,
    }
    return {name: place for name, place in places.items() if place is not None}


def _count(text: str, places: set[int], encoding: str, width: int) -> dict[int, int]:
    """Return each place in units of `width` bytes, in one pass over the text."""
    counted: dict[int, int] = {}
    done = num_units = 0
    for place in sorted(places):
        num_units += len(text[done:place].encode(encoding)) // width
        counted[place], done = num_units, place
    return counted
