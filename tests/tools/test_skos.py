"""A user's taxonomy in SKOS, in three notations, and what is wrong with it."""

import json

import pytest

from tests.tools.conftest import Toolbox

pytestmark = [
    pytest.mark.anyio,
    # rdflib's own reader of JSON-LD uses what rdflib has deprecated.
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
]
PREFIXES = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix : <http://example.org/c/> .
"""
TURTLE = (
    PREFIXES
    + """
:1 a skos:Concept ; skos:prefLabel "Clothing"@en, "Kleidung"@de .
:2 a skos:Concept ; skos:prefLabel "Shirts"@en ; skos:broader :1 .
:3 a skos:Concept ; skos:prefLabel "Kitchen" ; skos:narrower :4 .
:4 a skos:Concept ; skos:prefLabel "Forks"@en, "Forchette"@it .
"""
)
XML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:skos="http://www.w3.org/2004/02/skos/core#" xml:base="http://example.org/c/">
  <skos:Concept rdf:about="1"><skos:prefLabel>Clothing</skos:prefLabel></skos:Concept>
  <skos:Concept rdf:about="2"><skos:prefLabel>Shirts</skos:prefLabel>
    <skos:broader rdf:resource="1"/></skos:Concept>
  <skos:Concept rdf:about="3"><skos:prefLabel>Kitchen</skos:prefLabel></skos:Concept>
  <skos:Concept rdf:about="4"><skos:prefLabel>Forks</skos:prefLabel>
    <skos:broader rdf:resource="3"/></skos:Concept>
</rdf:RDF>"""
JSON_LD = json.dumps(
    {
        "@context": {
            "skos": "http://www.w3.org/2004/02/skos/core#",
            "name": "skos:prefLabel",
            "parent": {"@id": "skos:broader", "@type": "@id"},
            "@base": "http://example.org/c/",
        },
        "@graph": [
            {"@id": "1", "name": "Clothing"},
            {"@id": "2", "name": "Shirts", "parent": "1"},
            {"@id": "3", "name": "Kitchen"},
            {"@id": "4", "name": "Forks", "parent": "3"},
        ],
    }
)


@pytest.mark.parametrize(
    ("name", "content"), [("a.ttl", TURTLE), ("a.rdf", XML), ("a.jsonld", JSON_LD)]
)
async def test_a_thesaurus_is_a_taxonomy(toolbox: Toolbox, name: str, content: str) -> None:
    toolbox.write(name, content)
    answer = await toolbox.call("classify_taxonomy", texts=["forks", "shirts"], taxonomy=name)
    assert answer["num_categories"] == 4
    found = [(entry["path"], entry["category_id"]) for entry in answer["results"]]
    assert found == [("Kitchen > Forks", "4"), ("Clothing > Shirts", "2")]


async def test_notations_are_the_ids_where_every_concept_has_one(toolbox: Toolbox) -> None:
    lines = [f':{n} skos:prefLabel "label{n}" ; skos:notation "N{n}" .' for n in (1, 2)]
    toolbox.write("a.ttl", PREFIXES + "\n".join(lines))
    answer = await toolbox.call("classify_taxonomy", texts=["label2"], taxonomy="a.ttl")
    assert answer["results"][0]["category_id"] == "N2"


async def test_addresses_that_end_alike_are_kept_whole(toolbox: Toolbox) -> None:
    lines = [f'<http://{host}.org/x> skos:prefLabel "{host}" .' for host in ("a", "b")]
    toolbox.write("a.ttl", PREFIXES + "\n".join(lines))
    answer = await toolbox.call("classify_taxonomy", texts=["b"], taxonomy="a.ttl")
    assert answer["results"][0]["category_id"] == "http://b.org/x"


REMOTE = json.dumps({"@context": "https://example.org/context.json", "@id": "a"})
IMPORTED = json.dumps({"@context": [{"@import": "https://example.org/c"}], "@id": "a"})
ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + XML.partition("?>")[2]
BROKEN = {
    "circle.ttl": (
        ':1 skos:prefLabel "A" ; skos:broader :2 . :2 skos:prefLabel "B" ; skos:broader :1 .',
        "concept http://example.org/c/1: its parents go in a circle: '1' > '2'; break it",
    ),
    "self.ttl": (':1 skos:prefLabel "A" ; skos:broader :1 .', "go in a circle: '1'; break it"),
    "orphan.ttl": (
        ':1 skos:prefLabel "A" ; skos:broader :9 .',
        "its parent 'http://example.org/c/9' is not there; add it, or leave the parent out",
    ),
    "two.ttl": (
        ':1 skos:prefLabel "A" . :2 skos:prefLabel "B" . '
        ':3 skos:prefLabel "C" ; skos:broader :1, :2 .',
        "has 2 broader concepts (http://example.org/c/1, http://example.org/c/2); a category has",
    ),
    "twice.ttl": (
        ':1 skos:prefLabel "A" . :2 skos:prefLabel "A" .',
        "concept http://example.org/c/2: 'A' is there already, in concept http://example.org/c/1",
    ),
    "nameless.ttl": (":1 a skos:Concept .", "concept http://example.org/c/1 has no skos:prefLabel"),
    "blank.ttl": ('[] a skos:Concept ; skos:prefLabel "A" .', "it is a blank node"),
    "transitive.ttl": (
        ':1 skos:prefLabel "A" . :2 skos:prefLabel "B" ; skos:broaderTransitive :1 .',
        "transitive.ttl has skos:broaderTransitive only; add skos:broader",
    ),
    "empty.ttl": (":1 :2 :3 .", "empty.ttl holds no skos:Concept"),
    "broken.ttl": (":1 skos:prefLabel", "broken.ttl is no .ttl file of RDF: "),
    "broken.rdf": ("<a", "broken.rdf is no .rdf file of RDF: "),
    "entity.rdf": (ENTITY, "entity.rdf takes in other files (<!ENTITY … SYSTEM>)"),
    "broken.jsonld": ("{", "broken.jsonld is not JSON"),
    "remote.jsonld": (REMOTE, "its @context 'https://example.org/context.json' lies elsewhere"),
    "import.jsonld": (IMPORTED, "lies elsewhere and is not fetched"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_thesaurus_is_refused_with_the_reason(toolbox: Toolbox, name: str) -> None:
    content, expected = BROKEN[name]
    toolbox.write(name, PREFIXES + content if name.endswith(".ttl") else content)
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy=name)
    assert expected in text and len(text) < 500


async def test_too_many_concepts_are_refused(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sie_mcp.tools.skos_files.MAX_NODES", 3)
    toolbox.write("a.ttl", TURTLE)
    text = await toolbox.error("classify_taxonomy", texts=["a"], taxonomy="a.ttl")
    assert text == "a.ttl has more than 3 categories; split it"
