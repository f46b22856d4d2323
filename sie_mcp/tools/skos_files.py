"""Taxonomies in SKOS: concepts, their labels and what is broader. Imported only with rdflib.

Nothing is fetched: a context or an entity that lies elsewhere is refused.
"""

import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.sax import SAXException

from rdflib import Graph, Literal, URIRef
from rdflib.exceptions import Error as RdfError
from rdflib.namespace import RDF, SKOS
from rdflib.plugins.parsers.notation3 import BadSyntax
from rdflib.term import Node as Term

from sie_mcp.catalogue.notes import MAX_EXAMPLES, MAX_SYNONYMS, Notes, make_notes
from sie_mcp.catalogue.parents import Child
from sie_mcp.catalogue.taxonomy import MAX_NODES
from sie_mcp.errors import InvalidInput

# By ending: what rdflib calls the format.
FORMATS = {".rdf": "xml", ".ttl": "turtle", ".jsonld": "json-ld"}
_BROKEN = (RdfError, BadSyntax, SAXException, ValueError, TypeError, LookupError, RecursionError)
# Whose label is taken where a concept has several; "" is one without a language.
_LANGUAGES = ("en", "")


def read(text: str, ending: str, name: str) -> Iterator[Child]:
    """Yield the concepts, sorted by their addresses, so that the order is the same each time.

    Raises:
        InvalidInput: not of the format, no concepts, one without a label or with several parents.
    """
    graph = _parse(text, ending, name)
    found = {*graph.subjects(RDF.type, SKOS.Concept), *graph.subjects(SKOS.prefLabel)}
    concepts = sorted(found, key=str)
    if not concepts:
        raise InvalidInput(f"{name} holds no skos:Concept")
    if len(concepts) > MAX_NODES:
        raise InvalidInput(f"{name} has more than {MAX_NODES:,} categories; split it")
    parents = _parents(graph, name)
    ids = _ids(graph, concepts)
    languages = _languages(graph)
    for concept in concepts:
        yield _child(graph, concept, parents.get(concept, set()), ids, languages)


def _parse(text: str, ending: str, name: str) -> Graph:
    if ending == ".jsonld":
        _refuse_remote(text, name)
    elif ending == ".rdf" and "<!ENTITY" in text and "SYSTEM" in text:
        raise InvalidInput(f"{name} takes in other files (<!ENTITY … SYSTEM>); leave them out")
    try:
        return Graph().parse(io.BytesIO(text.encode()), format=FORMATS[ending])
    except _BROKEN as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidInput(f"{name} is no {ending} file of RDF: {reason}") from error


def _refuse_remote(text: str, name: str) -> None:
    """Refuse contexts that would be fetched."""
    try:
        left: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from error
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            context = value.get("@context")
            for one in context if isinstance(context, list) else [context]:
                if isinstance(one, str) or (isinstance(one, dict) and "@import" in one):
                    raise InvalidInput(
                        f"{name}: its @context {str(one)[:80]!r} lies elsewhere and is not "
                        "fetched; put the context into the file"
                    )
            left += value.values()


def _parents(graph: Graph, name: str) -> dict[Term, set[Term]]:
    pairs = {*graph.subject_objects(SKOS.broader)}
    pairs |= {(child, parent) for parent, child in graph.subject_objects(SKOS.narrower)}
    if not pairs and (None, SKOS.broaderTransitive, None) in graph:
        raise InvalidInput(f"{name} has skos:broaderTransitive only; add skos:broader")
    parents: dict[Term, set[Term]] = {}
    for child, parent in pairs:
        parents.setdefault(child, set()).add(parent)
    return parents


def _ids(graph: Graph, concepts: list[Term]) -> dict[Term, str]:
    """Give each concept its notation, or the end of its address, or all of it if ends are alike."""
    notations = [sorted(map(str, graph.objects(one, SKOS.notation))) for one in concepts]
    if all(len(found) == 1 for found in notations):
        named = [found[0] for found in notations]
    else:
        named = [str(one).rstrip("/#").replace("#", "/").rsplit("/", 1)[-1] for one in concepts]
    if len(set(named)) < len(named) or not all(named):
        named = [str(one) for one in concepts]
    return dict(zip(concepts, named, strict=True))


def _languages(graph: Graph) -> list[str]:
    """Order the languages: English, none, then the more frequent first."""
    labels = graph.objects(None, SKOS.prefLabel)
    counts = Counter((one.language or "").lower() for one in labels if isinstance(one, Literal))
    return [*_LANGUAGES, *sorted(counts, key=lambda language: (-counts[language], language))]


def _child(
    graph: Graph,
    concept: Term,
    parents: set[Term],
    ids: dict[Term, str],
    languages: list[str],
) -> Child:
    where = f"concept {str(concept)[:120]}"
    if not isinstance(concept, URIRef):
        raise InvalidInput(f"{where} has no address of its own (it is a blank node); give it one")
    labels = {
        (one.language or "").lower(): " ".join(str(one).split())
        for one in sorted(graph.objects(concept, SKOS.prefLabel), key=str)
        if isinstance(one, Literal)
    }
    label = next((labels[one] for one in languages if labels.get(one)), "")
    if not label:
        raise InvalidInput(f"{where} has no skos:prefLabel")
    if len(parents) > 1:
        shown = ", ".join(sorted(map(str, parents))[:3])
        raise InvalidInput(
            f"{where} has {len(parents)} broader concepts ({shown}); a category has one parent: "
            "keep one"
        )
    parent = next(iter(parents), None)
    above = "" if parent is None else ids.get(parent, str(parent))
    return Child(ids[concept], label, above, where, _notes(graph, concept, languages, where))


def _notes(graph: Graph, concept: Term, languages: list[str], where: str) -> Notes:
    """Take other labels, the first definition or scope note, and examples, in one language each."""
    others = [*graph.objects(concept, SKOS.altLabel), *graph.objects(concept, SKOS.hiddenLabel)]
    said = [*graph.objects(concept, SKOS.definition), *graph.objects(concept, SKOS.scopeNote)]
    description = next(iter(_spoken(said, languages)), "")
    synonyms = _spoken(others, languages)[:MAX_SYNONYMS]
    examples = _spoken([*graph.objects(concept, SKOS.example)], languages)[:MAX_EXAMPLES]
    return make_notes(synonyms, description, where, examples)


def _spoken(terms: list[Term], languages: list[str]) -> list[str]:
    """Return the texts of the first language that there is any in, in order."""
    texts = sorted(
        ((one.language or "").lower(), str(one)) for one in terms if isinstance(one, Literal)
    )
    language = next((one for one in languages if any(spoken == one for spoken, _ in texts)), None)
    return [text for spoken, text in texts if spoken == language]
