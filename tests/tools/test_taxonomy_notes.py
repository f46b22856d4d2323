"""Synonyms and descriptions of categories: read from each form, and used."""

import json

import pytest

from sie_mcp.catalogue.notes import Notes, make_notes
from sie_mcp.catalogue.taxonomy import Node, build
from tests.tools.conftest import Toolbox

pytestmark = [
    pytest.mark.anyio,
    # rdflib's own reader of JSON-LD uses what rdflib has deprecated.
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
]
SAID = {"synonyms": ["couch", "settee"], "description": "for sitting and lounging"}
FILES = {
    "paths.csv": "path,synonyms,description\nLamps,,\n"
    "Sofas,couch | settee,for sitting and lounging\n",
    "parents.tsv": "id\tname\tparent\tsynonyms\tdescription\n1\tLamps\t\n"
    "2\tSofas\t\tcouch;settee\tfor sitting and lounging\n",
    "paths.json": json.dumps(["Lamps", {"path": "Sofas"} | SAID]),
    "parents.json": json.dumps([{"id": 1, "name": "Lamps"}, {"id": 2, "name": "Sofas"} | SAID]),
    "words.ttl": """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix : <http://example.org/> .
:1 skos:prefLabel "Lamps"@en .
:2 skos:prefLabel "Sofas"@en ; skos:altLabel "couch"@en, "settee"@en, "Kanapee"@de ;
   skos:definition "for sitting and lounging"@en .
""",
}


@pytest.mark.parametrize("name", FILES)
async def test_what_is_called_otherwise_is_found_by_its_synonyms(
    toolbox: Toolbox, name: str
) -> None:
    toolbox.write(name, FILES[name])
    texts = ["settee", "couch", "something for lounging", "lamps"]
    answer = await toolbox.call("classify_taxonomy", texts=texts, taxonomy=name, top_k=1)
    assert [one["path"] for one in answer["results"]] == ["Sofas"] * 3 + ["Lamps"]
    encoded = {text for primitive, _, texts in toolbox.worker.calls for text in texts}
    assert {"couch", "settee", "for sitting and lounging"} <= encoded and "Kanapee" not in encoded


def test_notes_are_part_of_what_a_taxonomy_is() -> None:
    plain = build("a", [Node("A", "1"), Node("B", "2")])
    noted = build("a", [Node("A", "1"), Node("B", "2", notes=Notes(("b",)))])
    described = build("a", [Node("A", "1"), Node("B", "2", notes=Notes((), "b"))])
    assert len({plain.digest, noted.digest, described.digest}) == 3
    assert plain.notes == () and [one.texts for one in noted.notes] == [(), ("b",)]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("many.csv", "path,synonyms\nA," + "|".join(map(str, range(21))) + "\n", "limit is 20"),
        ("long.json", json.dumps([{"path": "A", "description": "x" * 2_001}]), "at most 2,000"),
        ("shown.csv", "path,examples\nA," + "|".join(map(str, range(21))) + "\n", "limit is 20"),
        ("list.json", json.dumps([{"path": "A", "examples": [3]}]), "as examples are"),
        ("odd.json", json.dumps([{"path": "A", "synonyms": 3}]), "synonyms are a list of texts"),
        ("text.json", json.dumps([{"path": "A", "description": ["b"]}]), "description is a text"),
        ("half.json", '[{"path": "A", "description": "\\ud800"}]', "lone surrogate"),
    ],
)
async def test_notes_that_cannot_be_used_are_refused(
    toolbox: Toolbox, name: str, content: str, says: str
) -> None:
    toolbox.write(name, content)
    assert says in await toolbox.error("classify_taxonomy", texts=["a"], taxonomy=name)


EXAMPLES = {
    "cells.csv": "path,examples\nGarden,\nKitchen,model zork eight; red | other\n",
    "lists.json": json.dumps(
        ["Garden", {"path": "Kitchen", "examples": ["model zork eight; red", "other"]}]
    ),
    "some.ttl": """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix : <http://example.org/> .
:1 skos:prefLabel "Garden"@en .
:2 skos:prefLabel "Kitchen"@en ; skos:example "model zork eight; red"@en, "other"@en .
""",
}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_examples_of_categories_count_and_a_callers_own_correct_them(
    toolbox: Toolbox, name: str
) -> None:
    toolbox.write(name, EXAMPLES[name])
    call = {"texts": ["garden model zork eight; red"], "taxonomy": name}
    answer = await toolbox.call("classify_taxonomy", **call)
    assert answer["results"][0]["path"] == "Kitchen"
    toolbox.write("seen.csv", "text,category\nmodel zork eight; red,Garden\n")
    corrected = await toolbox.call("classify_taxonomy", **call, examples="seen.csv")
    assert corrected["results"][0]["path"] == "Garden"


async def test_more_examples_than_can_be_compared_are_refused(toolbox: Toolbox) -> None:
    rows = [f"{n},{'|'.join(f'{n} {m}' for m in range(20))}" for n in range(101)]
    toolbox.write("much.csv", "\n".join(["path,examples", *rows]) + "\n")
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy="much.csv")
    assert text.startswith("much.csv has 2,020 examples, with yours 2,020; the limit is 2,000;")


def test_a_taxonomys_vectors_do_not_depend_on_its_examples() -> None:
    plain = build("a", [Node("A", "1")])
    taught = build("a", [Node("A", "1", notes=Notes((), "", ("b",)))])
    assert plain.digest == taught.digest and taught.notes[0].examples == ("b",)


def test_blanks_and_repetitions_are_no_synonyms() -> None:
    assert make_notes("a ; a || b  c", " ", "x") == Notes(("a", "b c"))
