"""Schemas of records: what is read of JSON Schema, and what is refused by its place."""

import json
from typing import Any, Literal

import pydantic
import pytest

from tests.tools.conftest import Toolbox
from tests.tools.schemer import INVOICE, Schemer

pytestmark = pytest.mark.anyio


@pytest.fixture
def worker() -> Schemer:
    return Schemer()


async def test_a_schema_as_a_library_writes_it_is_read(toolbox: Toolbox) -> None:
    """References, optional fields and enums of numbers, as pydantic writes them."""

    class Line(pydantic.BaseModel):
        name: str
        price: float | None = None

    class Seller(pydantic.BaseModel):
        town: str | None

    class Offer(pydantic.BaseModel):
        number: str | None = None
        stars: Literal[1, 2, 3] | None = None
        rate: Literal[1.125, 19] = 19
        kind: Literal["offer"] = "offer"
        tags: list[str] | None = None
        seller: Seller | None = None
        items: list[Line] = []

    text = (
        "Offer number:A-1; stars:2; rate:1.125; kind:offer; tags:red| seller town:Ulm| "
        "seller town:Bonn| items name:Pen; price:2,50"
    )
    schema = Offer.model_json_schema()
    assert "$ref" in json.dumps(schema) and "anyOf" in json.dumps(schema)
    answer = await toolbox.call("extract_structured", texts=[text], schema=schema)
    (record,) = answer["results"][0]["records"]
    assert record == {
        "number": "A-1", "stars": 2, "rate": 1.125, "kind": "offer", "tags": ["red"],
        "seller": {"town": "Ulm"}, "items": [{"name": "Pen", "price": 2.5}],
    }  # fmt: skip
    assert isinstance(record["stars"], int)
    (options,) = toolbox.worker.asked
    choices = {one.name: one.choices for one in options.structure.records[0].fields}
    assert choices["stars"] == ["1", "2", "3"] and choices["kind"] == ["offer"]


async def test_an_object_that_is_not_there_is_null(toolbox: Toolbox) -> None:
    seller = {"$ref": "#/definitions/a~1b"}
    schema = {
        "properties": {"number": {}, "seller": seller, "tags": {"type": ["array", "null"]}},
        "definitions": {"a/b": {"properties": {"town": {"type": ["null", "string"]}}}},
    }
    answer = await toolbox.call("extract_structured", texts=["record number:7"], schema=schema)
    assert answer["results"][0]["records"] == [{"number": "7", "seller": None, "tags": []}]


async def test_what_an_enum_does_not_hold_is_no_value(toolbox: Toolbox) -> None:
    schema = {"properties": {"stars": {"enum": [1, 2, None]}, "is": {"enum": [True, False]}}}
    texts = ["record stars:1.2; is:yes"]
    answer = await toolbox.call("extract_structured", texts=texts, schema=schema)
    assert answer["results"][0]["records"] == [{"stars": None, "is": True}]
    assert answer["results"][0]["not_typed"] == ["stars"]


@pytest.mark.parametrize(
    ("required", "message"),
    [
        (["number", "nobody"], "schema.required names 'nobody', which is no property; add it"),
        ("number", "schema.required must be a list of properties"),
    ],
)
async def test_what_is_required_must_be_a_property(
    toolbox: Toolbox, required: Any, message: str
) -> None:
    schema = INVOICE | {"required": required}
    assert message in await toolbox.error("extract_structured", texts=["a"], schema=schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "schema must be an object with properties"),
        ({"type": ["array", "null"], "properties": {"a": {}}}, "schema must be an object"),
        ({"properties": {"a": {"minimum": 0}}}, "schema.a: 'minimum' is not supported; supported"),
    ],
)
async def test_what_a_schema_cannot_be(toolbox: Toolbox, schema: Any, message: str) -> None:
    assert message in await toolbox.error("extract_structured", texts=["a"], schema=schema)


async def test_definitions_that_name_each_other_often_cost_nothing(toolbox: Toolbox) -> None:
    """What is not reached is not looked at: 30 levels of two references each are a billion."""
    levels = {
        f"l{n}": {"properties": {side: {"$ref": f"#/$defs/l{n + 1}"} for side in "ab"}}
        for n in range(30)
    }
    schema = {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels | {"l30": {}}}
    text = await toolbox.error("extract_structured", texts=["a"], schema=schema)
    assert "schema.a.a: objects inside of objects in objects" in text


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"a": {"type": "object"}}, "schema.a: type 'object' is not supported here"),
        (
            {"a": {"properties": {"b": {"properties": {"c": {}}}}}},
            "schema.a.b: objects inside of objects in objects are not supported",
        ),
        ({"a": {"$ref": "#/x"}}, "schema.a: $ref '#/x' is none of the schema's own $defs"),
        ({"a": {"$ref": "#/$defs/loop"}}, "schema.a: $ref '#/$defs/loop' leads to itself"),
        ({"a": {"$ref": "#/$defs/five"}}, "schema.a must be a JSON object, not int"),
        ({"a": {"anyOf": [{"type": "string"}, {"type": "number"}]}}, "schema.a.anyOf has 2 types"),
        ({"a": {"anyOf": [{"type": "null"}]}}, "schema.a.anyOf has 0 types; one works"),
        ({"a": {"anyOf": "string"}}, "schema.a.anyOf has 0 types; one works"),
        (
            {"a": {"enum": [{}]}},
            "schema.a: enum must be a list of strings or numbers, one at least",
        ),
        ({"a": {"enum": [1, "b"]}}, "schema.a: enum has values of several types; use one"),
        ({"a": {"enum": [1, True]}}, "schema.a: enum has values of several types; use one"),
        ({"a": {"enum": []}}, "schema.a: enum must be a list of strings"),
        ({"a": {"enum": "yes"}}, "schema.a: enum must be a list of strings"),
        ({"a": {"enum": 5}}, "schema.a: enum must be a list of strings"),
        ({"a": {"const": None}}, "schema.a: enum must be a list of strings"),
        ({"a": {"enum": [" "]}}, "schema.a: choices 0: ' ' needs at least one character"),
        ({"": {"type": "string"}}, "schema.: name: '' needs at least one character"),
        (
            {"": {"type": "array", "items": {"properties": {"b": {}}}}},
            "schema: name: '' needs at least one character",
        ),
        ({"a": 3}, "schema.a must be a JSON object, not int"),
        ({}, "schema has 0 properties"),
        ({"record": {"type": "array", "items": {"properties": {"b": {}}}}, "c": {}}, "'record'"),
    ],
)
async def test_a_schema_that_is_not_served_is_refused_by_its_place(
    toolbox: Toolbox, properties: dict[str, Any], message: str
) -> None:
    loop, five = {"allOf": [{"$ref": "#/$defs/loop"}]}, 5
    schema = {"type": "object", "properties": properties, "$defs": {"loop": loop, "five": five}}
    assert message in await toolbox.error("extract_structured", texts=["a"], schema=schema)
