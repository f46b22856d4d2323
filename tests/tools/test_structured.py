"""`extract_structured` and `extract_relations`, as an agent calls them; schemas, values, graphs."""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal
from xml.etree import ElementTree

import pydantic
import pytest

from sie_mcp import wire
from sie_mcp.tools.structured.values import to_number
from sie_mcp.wire_structure import FieldValue, Record
from tests.tools.conftest import Toolbox
from tests.tools.fake_worker import FakeWorker

pytestmark = pytest.mark.anyio
INVOICE = {
    "type": "object",
    "title": "invoice",
    "properties": {
        "number": {"type": "string"},
        "total": {"type": ["number", "null"], "description": "with tax"},
        "copies": {"type": "integer"},
        "paid": {"type": "boolean"},
        "currency": {"enum": ["EUR", "USD"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
            },
        },
    },
    "required": ["number"],
}
TEXT = "invoice number:A-1; total:1.234,50 EUR; copies:two; paid:yes; tags:red; tags:blue"


class Schemer(FakeWorker):
    """Finds "field:value" for records, "a -> b" for every relation."""

    def __init__(self) -> None:
        super().__init__()
        self.card = wire.ModelCard(
            name="toy-schemer",
            primitives=["extract"],
            outputs=["entities", "relations", "classifications", "records"],
        )
        self.extra_cards = [self.card]
        self.asked: list[wire.ExtractOptions] = []

    async def model(self, name: str) -> wire.ModelCard:
        return self.card if name == "toy-schemer" else await super().model(name)

    async def extract(self, model: str, items: Sequence[wire.Item], params: Any = None, **_: Any):
        if params is None:
            return wire.ExtractResponse(model=model, items=[wire.ExtractedItem() for _ in items])
        self.asked.append(params.options)
        found = [self._found(item.text or "", params.options.structure) for item in items]
        return wire.ExtractResponse(model=model, items=found)

    def _found(self, text: str, asked: Any) -> wire.ExtractedItem:
        if "FAIL" in text:
            return wire.ExtractedItem(error=wire.ItemError(code="X", message="no memory"))
        records = []
        for spec in asked.records:
            for part in re.finditer(rf"{spec.name}( [^|]*)", text):
                shift = part.start(1)
                fields = {
                    one.name: [
                        FieldValue(
                            text=m[1], score=0.9, start=shift + m.start(1), end=shift + m.end(1)
                        )
                        for m in re.finditer(rf"{one.name}:([^;|]*)", part[1])
                    ]
                    for one in spec.fields
                }
                if any(fields.values()):
                    records.append(Record(name=spec.name, fields=fields))
        relations = [
            wire.Relation(
                head=m[1], tail=m[2], relation=name, score=0.8,
                head_start=m.start(1), head_end=m.end(1), tail_start=m.start(2), tail_end=m.end(2),
            )
            for name in asked.relations
            for m in re.finditer(r"(\w+) -> (\w+)", text)
        ]  # fmt: skip
        return wire.ExtractedItem(records=records, relations=relations)


@pytest.fixture
def worker() -> Schemer:
    return Schemer()


async def test_values_have_the_types_of_the_schema_and_what_is_missing_is_null(
    toolbox: Toolbox,
) -> None:
    answer = await toolbox.call("extract_structured", texts=["nothing", TEXT], schema=INVOICE)
    (text,) = answer["results"]
    assert text["index"] == 1 and answer["num_records"] == 1
    assert text["records"] == [
        {
            "number": "A-1", "total": 1234.5, "copies": None, "paid": True, "currency": None,
            "tags": ["red", "blue"], "items": [],
        }
    ]  # fmt: skip
    assert text["not_typed"] == ["copies"] and "spans" not in text
    (options,) = toolbox.worker.asked
    total = next(one for one in options.structure.records[0].fields if one.name == "total")
    assert total.description == "with tax" and [one.name for one in options.structure.records] == [
        "invoice",
        "items",
    ]


async def test_lists_of_objects_belong_to_the_text_s_only_object(toolbox: Toolbox) -> None:
    texts = [f"{TEXT} | items name:Pen; price:2,50 | items name:Ink; price:3", "items name:Cap"]
    answer = await toolbox.call("extract_structured", texts=texts, schema=INVOICE)
    first, second = (one["records"] for one in answer["results"])
    assert first[0]["items"] == [{"name": "Pen", "price": 2.5}, {"name": "Ink", "price": 3.0}]
    assert second[0]["number"] is None
    assert second[0]["items"] == [{"name": "Cap", "price": None}]


async def test_an_object_may_hold_nothing_but_lists_of_others(toolbox: Toolbox) -> None:
    schema = {"properties": {"items": INVOICE["properties"]["items"]}}  # type: ignore[index]
    texts = ["items name:Pen; price:2,50 | items name:Ink"]
    answer = await toolbox.call("extract_structured", texts=texts, schema=schema)
    (text,) = answer["results"]
    pens = [{"name": "Pen", "price": 2.5}, {"name": "Ink", "price": None}]
    assert text["records"] == [{"items": pens}]


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


async def test_definitions_that_name_each_other_often_cost_nothing(toolbox: Toolbox) -> None:
    """What is not reached is not looked at: 30 levels of two references each are a billion."""
    levels = {
        f"l{n}": {"properties": {side: {"$ref": f"#/$defs/l{n + 1}"} for side in "ab"}}
        for n in range(30)
    }
    schema = {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels | {"l30": {}}}
    text = await toolbox.error("extract_structured", texts=["a"], schema=schema)
    assert "schema.a.a: objects inside of objects in objects" in text


async def test_spans_say_where_values_stand(toolbox: Toolbox) -> None:
    answer = await toolbox.call("extract_structured", texts=[TEXT], schema=INVOICE, spans=True)
    for place in answer["results"][0]["spans"]:
        assert TEXT[slice(*place["span"])] == place["text"]
    assert answer["results"][0]["spans"][0]["field"] == "invoice.number"


async def test_records_go_to_a_file_line_by_line(toolbox: Toolbox) -> None:
    toolbox.write("mails.csv", f'text\n"{TEXT}"\nFAIL\n')
    answer = await toolbox.call(
        "extract_structured", path="mails.csv", schema=INVOICE, output_path="out.jsonl"
    )
    (line,) = (toolbox.folder / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["records"][0]["total"] == 1234.5
    assert answer["failed"]["count"] == 1


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


async def test_without_a_model_that_can_the_error_says_which_would(toolbox: Toolbox) -> None:
    text = await toolbox.error(
        "extract_structured", texts=["a"], schema=INVOICE, model="toy-extractor"
    )
    assert "toy-extractor gives nothing, not records" in text and "GLiNER2" in text
    toolbox.worker.extra_cards = []
    text = await toolbox.error("extract_relations", texts=["a"], relations="knows")
    assert text.startswith("no model here gives relations; name fastino/gliner2-base-v1")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.50", 1234.5), ("1.234,50 EUR", 1234.5), ("EUR 12", 12), ("-3", -3), ("\u22123", -3),
        ("1,234", 1234), ("1.234.567", 1234567), ("0.125", 0.125), ("2,5", 2.5),
        ("1 234,5", 1234.5),
        ("1'234.5", 1234.5), ("about 7 or 8", 7), ("none", None), ("", None),
    ],
)  # fmt: skip
def test_numbers_are_read_in_either_convention(text: str, number: float | None) -> None:
    assert to_number(text) == number


async def test_triples_come_with_their_places(toolbox: Toolbox) -> None:
    text = "Ann -> Acme, Bob -> Acme"
    answer = await toolbox.call("extract_relations", texts=[text], relations=["works for"])
    assert answer["counts"] == {"works for": 2}
    for one in answer["results"]:
        spans = one["spans"]
        assert (text[spans[0] : spans[1]], text[spans[2] : spans[3]]) == (one["head"], one["tail"])


async def test_a_folder_becomes_one_graph_with_entities_merged(toolbox: Toolbox) -> None:
    toolbox.write("a.txt", "Ann -> Acme & Ann -> Acme")
    toolbox.write("b.txt", "ANN -> acme, Bob -> Cole")
    arguments = {"path": "*.txt", "relations": {"works <for>": "a job"}}
    answer = await toolbox.call("extract_relations", graph_path="g.graphml", **arguments)
    assert (answer["num_nodes"], answer["num_edges"]) == (4, 2)
    root = ElementTree.parse(toolbox.folder / "g.graphml").getroot()
    names = [one.text for one in root.iter() if one.get("key") == "name"]
    assert names == ["Ann", "Acme", "Bob", "Cole"]
    weights = [one.text for one in root.iter() if one.get("key") == "weight"]
    relations = {one.text for one in root.iter() if one.get("key") == "relation"}
    assert weights == ["3", "1"] and relations == {"works <for>"}
    await toolbox.call("extract_relations", graph_path="g.jsonl", **arguments)
    lines = [json.loads(line) for line in (toolbox.folder / "g.jsonl").read_text().splitlines()]
    assert lines[0] == {"node": 0, "name": "Ann", "count": 3}
    assert lines[4]["sources"] == ["a.txt line 1", "b.txt line 1"]


async def test_triples_go_to_a_file_as_rows(toolbox: Toolbox) -> None:
    answer = await toolbox.call(
        "extract_relations", texts=["Ann -> Acme"] * 3, relations=["x"], output_path="t.jsonl"
    )
    rows = [json.loads(line) for line in (toolbox.folder / "t.jsonl").read_text().splitlines()]
    assert len(rows) == 3 and rows[0]["tail_start"] == 7 and "omitted" not in answer


async def test_a_relation_needs_a_name_that_can_be_read(toolbox: Toolbox) -> None:
    text = await toolbox.error("extract_relations", texts=["a -> b"], relations=["met", " "])
    assert "relations" in text and "' ' needs at least one character that is not a space" in text


async def test_no_relation_at_all_is_refused(toolbox: Toolbox) -> None:
    for odd in ([[]], [{}], [None], 5):
        text = await toolbox.error("extract_relations", texts=["a"], relations=odd)
        assert "should be a valid dictionary" in text
    text = await toolbox.error("extract_relations", texts=["a"], relations=[])
    assert "relations has 0 entries" in text


async def test_entity_types_to_link_are_passed_on(toolbox: Toolbox) -> None:
    arguments: dict[str, Any] = {"texts": ["Ann -> Acme"], "relations": "works for"}
    await toolbox.call("extract_relations", **arguments)
    await toolbox.call("extract_relations", entities=["person", "company"], **arguments)
    asked = [one.structure.entities for one in toolbox.worker.asked if one.structure is not None]
    assert asked == [{}, {"person": "", "company": ""}]
    too_many = [str(number) for number in range(101)]
    text = await toolbox.error("extract_relations", entities=too_many, **arguments)
    assert "entities has 101 entries; at most 100 work" in text
