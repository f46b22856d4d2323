"""Values as a schema wants them, out of what stands in a text. Pure."""

import re
from collections.abc import Sequence
from typing import Any

from sie_mcp.tools.structured.schemas import NO, YES, Field, Shape
from sie_mcp.wire_structure import FieldValue, Record

# A number, and the separators of thousands and fractions as either convention writes them.
_NUMBER = re.compile(r"[-+\u2212]?\d(?:[\d.,'\u00a0\u202f ]*\d)?")
_SPACES = re.compile(r"['\u00a0\u202f ]")
Values = dict[str, Any]


def to_values(shape: Shape, records: Sequence[Record]) -> tuple[list[Values], list[str]]:
    """Return the objects of one text, and the fields whose text is no value of their type.

    Objects inside of the object, and lists of them, belong to the text: they go to its only
    object, or to one of their own where the text has none or several.
    """
    wrong: list[str] = []
    found = [_object(shape, one, wrong) for one in records if one.name == shape.name]
    lists = {
        each.name: [_object(each, one, wrong) for one in records if one.name == each.name]
        for each in shape.nested
    }
    if any(lists.values()) and len(found) != 1:
        found.append(dict.fromkeys(one.name for one in shape.fields))
    for place, one in enumerate(found):
        is_owner = place == len(found) - 1
        for each in shape.nested:
            own = lists[each.name] if is_owner else []
            one[each.name] = own if each.is_list else next(iter(own), None)
    return found, sorted(set(wrong))


def spans_of(records: Sequence[Record]) -> list[tuple[str, str, str, int, int]]:
    """Return where values stand: record, field, text, start and end."""
    return [
        (record.name, name, value.text, value.start, value.end)
        for record in records
        for name, values in record.fields.items()
        for value in values
        if value.start is not None and value.end is not None
    ]


def _object(shape: Shape, record: Record, wrong: list[str]) -> Values:
    return {one.name: _value(one, record.fields.get(one.name, []), wrong) for one in shape.fields}


def _value(field: Field, found: Sequence[FieldValue], wrong: list[str]) -> Any:
    values = []
    for one in found:
        value = _typed(field, one.text)
        if value is None:
            wrong.append(field.name)
        else:
            values.append(value)
    if field.is_list:
        return list(dict.fromkeys(values))
    return values[0] if values else None


def _typed(field: Field, text: str) -> Any:
    """Return a text as a value of the field's type; None where it is none."""
    if field.type == "boolean":
        return {YES: True, NO: False}.get(text)
    if field.type == "string":
        return text
    if field.choices:
        return {str(one): one for one in field.choices}.get(text)
    number = to_number(text)
    if number is None or (field.type == "integer" and not number.is_integer()):
        return None
    return int(number) if field.type == "integer" else number


def to_number(text: str) -> float | None:
    """Return the first number in a text: "1,234.50", "1.234,50 EUR", "-3", "EUR 12".

    The last of two different separators is the decimal one. One separator alone, once, before
    exactly three digits is one of thousands, as prices and counts are written.
    """
    match = _NUMBER.search(text)
    if match is None:
        return None
    plain = _SPACES.sub("", match[0]).replace("\u2212", "-")
    last = max(plain.rfind("."), plain.rfind(","))
    if last < 0:
        return float(plain)
    mark = plain[last]
    other = "," if mark == "." else "."
    is_thousands = other not in plain and (
        plain.count(mark) > 1 or (len(plain) - last == 4 and plain.lstrip("+-")[0] != "0")
    )
    if is_thousands:
        return float(plain.replace(mark, ""))
    whole, fraction = plain[:last], plain[last + 1 :]
    return float(f"{whole.replace(other, '')}.{fraction}")
