"""Relations of many texts as one graph: entities merged by their names, edges counted.

Written as GraphML, which graph programs read, or as JSONL: a line a node, then a line an edge.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.sax.saxutils import escape, quoteattr

GRAPH_ENDINGS = (".graphml", ".jsonl")
_NO_LETTER = re.compile(r"[\W_]+")
# What XML cannot hold, not even escaped.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEAD = b"""<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="name" for="node" attr.name="name" attr.type="string"/>
<key id="count" for="node" attr.name="count" attr.type="int"/>
<key id="relation" for="edge" attr.name="relation" attr.type="string"/>
<key id="weight" for="edge" attr.name="weight" attr.type="int"/>
<key id="score" for="edge" attr.name="score" attr.type="double"/>
<key id="sources" for="edge" attr.name="sources" attr.type="string"/>
<graph edgedefault="directed">
"""
MAX_SOURCES = 5


@dataclass(slots=True)
class Edge:
    """A relation between two nodes: how often it was found, how surely, and where first."""

    head: int
    relation: str
    tail: int
    weight: int = 0
    score: float = 0.0
    sources: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    """Nodes by the key of their name: the first spelling, and how often it was met."""

    names: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], Edge] = field(default_factory=dict)

    def add(self, head: str, relation: str, tail: str, score: float, source: str) -> None:
        """Add one finding."""
        first, last = self._node(head), self._node(tail)
        new = Edge(self.places[first], relation, self.places[last])
        edge = self.edges.setdefault((first, relation, last), new)
        edge.weight += 1
        edge.score = max(edge.score, score)
        if source not in edge.sources and len(edge.sources) < MAX_SOURCES:
            edge.sources.append(source)

    def _node(self, name: str) -> str:
        """Return a name's key: case, spaces and punctuation make no other entity."""
        key = _NO_LETTER.sub(" ", name.casefold()).strip() or name
        self.places.setdefault(key, len(self.places))
        self.names.setdefault(key, " ".join(name.split()))
        self.counts[key] = self.counts.get(key, 0) + 1
        return key


def write_graph(file: BinaryIO, graph: Graph, ending: str) -> None:
    """Write a graph in the format of the ending."""
    file.writelines(_graphml(graph) if ending == ".graphml" else _json_lines(graph))


def _json_lines(graph: Graph) -> Iterator[bytes]:
    rows: list[dict[str, object]] = [
        {"node": place, "name": name, "count": graph.counts[key]}
        for place, (key, name) in enumerate(graph.names.items())
    ]
    rows += [
        {
            "head": edge.head,
            "relation": edge.relation,
            "tail": edge.tail,
            "weight": edge.weight,
            "score": round(edge.score, 4),
            "sources": edge.sources,
        }
        for edge in graph.edges.values()
    ]
    for row in rows:
        yield (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _graphml(graph: Graph) -> Iterator[bytes]:
    yield _HEAD
    for place, (key, name) in enumerate(graph.names.items()):
        data = _data({"name": name, "count": graph.counts[key]}.items())
        yield f'<node id="n{place}">{data}</node>\n'.encode()
    for place, edge in enumerate(graph.edges.values()):
        values = {
            "relation": edge.relation,
            "weight": edge.weight,
            "score": round(edge.score, 4),
            "sources": " | ".join(edge.sources),
        }
        ends = f"source={quoteattr(f'n{edge.head}')} target={quoteattr(f'n{edge.tail}')}"
        yield f'<edge id="e{place}" {ends}>{_data(values.items())}</edge>\n'.encode()
    yield b"</graph>\n</graphml>\n"


def _data(values: Iterable[tuple[str, object]]) -> str:
    return "".join(
        f"<data key={quoteattr(key)}>{escape(_CONTROL.sub(' ', str(value)))}</data>"
        for key, value in values
    )
