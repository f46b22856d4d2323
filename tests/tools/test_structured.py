"""`extract_structured` and `extract_relations`, as an agent calls them; schemas, values, graphs."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from sie_mcp.tools.structured.values import to_number
from tests.tools.conftest import Toolbox
from tests.tools.schemer import INVOICE, Schemer

pytestmark = pytest.mark.anyio
TEXT = "invoice number:A-1; total:1.234,50 EUR; copies:two; paid:yes; tags:red; tags:blue"


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


async def test_triples_and_their_graph_need_two_files(toolbox: Toolbox) -> None:
    call = {"texts": ["a -> b"], "relations": ["knows"], "output_path": "a.jsonl"}
    text = await toolbox.error("extract_relations", **call, graph_path="./a.jsonl")
    assert "output_path and graph_path are both a.jsonl; name two files" in text
    assert not toolbox.worker.asked and not (toolbox.folder / "a.jsonl").exists()


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
