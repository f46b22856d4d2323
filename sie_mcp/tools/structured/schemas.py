"""A subset of JSON Schema: what a record looks like, and what a model is asked for it.

Objects of strings, numbers, integers, booleans, enums, arrays of strings or enums, and objects of
the same or arrays of them, one level deep. Everything else is refused by its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pydantic

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.structured.references import References
from sie_mcp.wire_structure import MAX_FIELDS, FieldSpec, RecordSpec

FieldType = Literal["string", "number", "integer", "boolean"]
_TYPES: tuple[FieldType, ...] = ("string", "number", "integer", "boolean")
_KNOWN = {
    "type", "properties", "required", "items", "enum", "const", "description", "title", "default",
    "additionalProperties", "$schema", "$id", "$comment", "format", "examples",
}  # fmt: skip
YES, NO = "yes", "no"
ROOT = "record"
Choice = str | int | float


@dataclass(frozen=True, slots=True)
class Field:
    """A property: its type, whether it is a list, what it may be."""

    name: str
    type: FieldType
    is_list: bool = False
    choices: tuple[Choice, ...] = ()
    description: str = ""

    @property
    def spec(self) -> FieldSpec:
        """What a model is asked."""
        choices = [YES, NO] if self.type == "boolean" else list(map(str, self.choices)) or None
        return FieldSpec(
            name=self.name,
            description=self.description,
            is_list=self.is_list,
            choices=choices,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its plain fields, and by name those that are objects, or with `is_list` lists."""

    name: str
    fields: tuple[Field, ...]
    nested: tuple["Shape", ...] = ()
    is_list: bool = False

    @property
    def records(self) -> list[RecordSpec]:
        """What a model is asked: a kind of record for the object, and one for each in it."""
        fields = [one.spec for one in self.fields]
        # An object that holds nothing but others is asked for by those alone.
        own = [RecordSpec(name=self.name, fields=fields)] if fields else []
        return own + [one for each in self.nested for one in each.records]


def read_schema(schema: Mapping[str, Any]) -> Shape:
    """Read the schema of one record.

    Raises:
        InvalidInput: not of the subset; says where and what would work.
    """
    kind = schema.get("title")
    name = kind if isinstance(kind, str) and kind.strip() else ROOT
    shape = _shape(References.of(schema), schema, name, "schema")
    try:
        names = [one.name for one in shape.records]
    except pydantic.ValidationError as error:
        raise _refused("schema", error) from error
    if twice := sorted({one for one in names if names.count(one) > 1}):
        raise InvalidInput(f"schema: two kinds of records are called {twice[0]!r}; rename one")
    return shape


def _shape(
    references: References,
    schema: Any,
    name: str,
    where: str,
    *,
    is_nested: bool = False,
    is_list: bool = False,
) -> Shape:
    schema = references.plain(schema, where)
    _check_keys(schema, where)
    properties = schema.get("properties")
    if _type_of(schema, "object") != "object" or not isinstance(properties, dict):
        raise InvalidInput(f"{where} must be an object with properties")
    if not 0 < len(properties) <= MAX_FIELDS:
        raise InvalidInput(f"{where} has {len(properties)} properties; 1 to {MAX_FIELDS} work")
    _check_required(schema.get("required", []), properties, where)
    fields, nested = [], []
    for key, given in properties.items():
        place = f"{where}.{key}"
        value = references.plain(given, place)
        own = value
        if is_array := _type_of(value) == "array":
            own = references.plain(value.get("items", {}), f"{place}.items")
        if "properties" not in own:
            fields.append(_field(key, value, own if is_array else None, place))
        elif is_nested:
            raise InvalidInput(f"{place}: objects inside of objects in objects are not supported")
        else:
            _check_keys(value, place)
            nested.append(_shape(references, own, key, place, is_nested=True, is_list=is_array))
    return Shape(name, tuple(fields), tuple(nested), is_list)


def _field(
    name: str, schema: Mapping[str, Any], items: Mapping[str, Any] | None, where: str
) -> Field:
    _check_keys(schema, where)
    own = schema
    if items is not None:
        own = items
        _check_keys(own, f"{where}.items")
    choices = _choices(own, where)
    given = _type_of(own, _type_of_choices(choices, where))
    kind = next((one for one in _TYPES if one == given), None)
    if kind is None or (items is not None and kind == "boolean"):
        raise InvalidInput(
            f"{where}: type {given!r} is not supported here; supported: {', '.join(_TYPES)}, "
            "objects, arrays of strings, numbers or objects"
        )
    description = schema.get("description") or own.get("description") or ""
    field = Field(name, kind, items is not None, choices, str(description))
    try:
        _ = field.spec
    except pydantic.ValidationError as error:
        raise _refused(where, error) from error
    return field


def _type_of(schema: Mapping[str, Any], default: str = "") -> Any:
    """Return the type; of ["string", "null"] the string: what cannot be found is null anyway."""
    given = schema.get("type", default)
    if isinstance(given, list):
        return next((one for one in given if one != "null"), default)
    return given


def _choices(schema: Mapping[str, Any], where: str) -> tuple[Choice, ...]:
    """Return what a value may be; nothing where it may be anything."""
    if "enum" not in schema and "const" not in schema:
        return ()
    listed = schema["enum"] if "enum" in schema else [schema["const"]]
    choices = [one for one in listed if one is not None] if isinstance(listed, list) else []
    if not choices or not all(isinstance(one, str | int | float) for one in choices):
        raise InvalidInput(f"{where}: enum must be a list of strings or numbers, one at least")
    return tuple(choices)


def _type_of_choices(choices: tuple[Choice, ...], where: str) -> FieldType:
    """Return the type that an enum without one means."""
    kinds = {type(one) for one in choices}
    if kinds <= {str}:
        return "string"
    if str in kinds or (bool in kinds and len(kinds) > 1):
        raise InvalidInput(f"{where}: enum has values of several types; use one")
    return "boolean" if kinds == {bool} else "integer" if kinds == {int} else "number"


def _check_required(required: Any, properties: Mapping[str, Any], where: str) -> None:
    """Refuse what cannot be meant: a record never has what is no property."""
    if not isinstance(required, list):
        raise InvalidInput(f"{where}.required must be a list of properties")
    if unknown := [one for one in required if one not in properties]:
        raise InvalidInput(f"{where}.required names {unknown[0]!r}, which is no property; add it")


def _refused(where: str, error: pydantic.ValidationError) -> InvalidInput:
    """Return the error for what no model can be asked: a name without a letter, or a long one."""
    (first, *_) = error.errors(include_url=False, include_input=False, include_context=False)
    what = " ".join(str(one) for one in first["loc"])
    return InvalidInput(f"{where}: {what}: {first['msg'].removeprefix('Value error, ')}")


def _check_keys(schema: Mapping[str, Any], where: str) -> None:
    if unknown := sorted(set(schema) - _KNOWN):
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is not supported; supported: {', '.join(sorted(_KNOWN))}"
        )
