"""A subset of JSON Schema: what a record looks like, and what a model is asked for it.

Objects of strings, numbers, integers, booleans, enums, arrays of strings or enums, and arrays of
objects of the same, one level deep. Everything else is refused by its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pydantic

from sie_mcp.errors import InvalidInput
from sie_mcp.wire_structure import MAX_FIELDS, FieldSpec, RecordSpec

FieldType = Literal["string", "number", "integer", "boolean"]
_TYPES: tuple[FieldType, ...] = ("string", "number", "integer", "boolean")
_KNOWN = {
    "type", "properties", "required", "items", "enum", "description", "title", "default",
    "additionalProperties", "$schema", "format", "examples",
}  # fmt: skip
YES, NO = "yes", "no"
ROOT = "record"


@dataclass(frozen=True, slots=True)
class Field:
    """A property: its type, whether it is a list, what it may be."""

    name: str
    type: FieldType
    is_list: bool = False
    choices: tuple[str, ...] = ()
    description: str = ""

    @property
    def spec(self) -> FieldSpec:
        """What a model is asked."""
        choices = [YES, NO] if self.type == "boolean" else list(self.choices) or None
        return FieldSpec(
            name=self.name,
            description=self.description,
            is_list=self.is_list,
            choices=choices,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its plain fields, and its lists of objects by name."""

    name: str
    fields: tuple[Field, ...]
    nested: tuple["Shape", ...] = ()

    @property
    def records(self) -> list[RecordSpec]:
        """What a model is asked: a kind of record for the object, and one for each list."""
        fields = [one.spec for one in self.fields]
        # An object that holds nothing but lists of others is asked for by those alone.
        own = [RecordSpec(name=self.name, fields=fields)] if fields else []
        return own + [one for each in self.nested for one in each.records]


def read_schema(schema: Mapping[str, Any]) -> Shape:
    """Read the schema of one record.

    Raises:
        InvalidInput: not of the subset; says where and what would work.
    """
    kind = schema.get("title")
    name = kind if isinstance(kind, str) and kind.strip() else ROOT
    shape = _shape(schema, name, "schema", can_nest=True)
    try:
        names = [one.name for one in shape.records]
    except pydantic.ValidationError as error:
        raise _refused("schema", error) from error
    if twice := sorted({one for one in names if names.count(one) > 1}):
        raise InvalidInput(f"schema: two kinds of records are called {twice[0]!r}; rename one")
    return shape


def _shape(schema: Any, name: str, where: str, *, can_nest: bool) -> Shape:
    _check_keys(schema, where)
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise InvalidInput(f"{where} must be an object with properties")
    if not 0 < len(properties) <= MAX_FIELDS:
        raise InvalidInput(f"{where} has {len(properties)} properties; 1 to {MAX_FIELDS} work")
    fields, nested = [], []
    for key, value in properties.items():
        place = f"{where}.{key}"
        _check_keys(value, place)
        items = value.get("items")
        if value.get("type") == "array" and isinstance(items, dict) and "properties" in items:
            if not can_nest:
                raise InvalidInput(f"{place}: lists of objects inside of objects are not supported")
            nested.append(_shape(items, key, place, can_nest=False))
        else:
            fields.append(_field(key, value, place))
    return Shape(name, tuple(fields), tuple(nested))


def _field(name: str, schema: Mapping[str, Any], where: str) -> Field:
    is_list = schema.get("type") == "array"
    own = schema.get("items") if is_list else schema
    if is_list:
        _check_keys(own, f"{where}.items")
    assert isinstance(own, Mapping)
    given = own.get("type", "string")
    if isinstance(given, list):  # ["string", "null"]: what cannot be found is null anyway.
        given = next((one for one in given if one != "null"), "string")
    kind = next((one for one in _TYPES if one == given), None)
    if kind is None or (is_list and kind == "boolean"):
        raise InvalidInput(
            f"{where}: type {given!r} is not supported here; supported: {', '.join(_TYPES)}, "
            "arrays of strings, numbers or objects"
        )
    description = schema.get("description") or own.get("description") or ""
    field = Field(name, kind, is_list, _choices(own, where), str(description))
    try:
        _ = field.spec
    except pydantic.ValidationError as error:
        raise _refused(where, error) from error
    return field


def _choices(schema: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return what a value may be; nothing where it may be anything."""
    if "enum" not in schema:
        return ()
    choices = schema["enum"]
    is_list = isinstance(choices, list) and choices
    if not is_list or not all(isinstance(one, str) for one in choices):
        raise InvalidInput(f"{where}: enum must be a list of strings, one at least")
    return tuple(choices)


def _refused(where: str, error: pydantic.ValidationError) -> InvalidInput:
    """Return the error for what no model can be asked: a name without a letter, or a long one."""
    (first, *_) = error.errors(include_url=False, include_input=False, include_context=False)
    what = " ".join(str(one) for one in first["loc"])
    return InvalidInput(f"{where}: {what}: {first['msg'].removeprefix('Value error, ')}")


def _check_keys(schema: Any, where: str) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidInput(f"{where} must be a JSON object, not {type(schema).__name__}")
    if unknown := sorted(set(schema) - _KNOWN):
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is not supported; supported: {', '.join(sorted(_KNOWN))}"
        )
