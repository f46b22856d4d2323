"""The evaluation data as plain Python values. Knows files, no models."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A retrieval collection: documents, queries, and for each query the relevant documents."""

    name: str
    document_ids: list[str]
    documents: list[str]
    query_ids: list[str]
    queries: list[str]
    relevant: dict[str, set[str]]


def read_retrieval(name: str) -> Retrieval:
    """Read a collection; a judgement of 0 counts as not relevant."""
    folder = DATA / name
    documents = read_jsonl(f"{name}/corpus.jsonl")
    queries = _rows(folder / "queries.tsv")
    relevant: dict[str, set[str]] = {}
    for query_id, document_id, grade, *_ in _rows(folder / "qrels.tsv"):
        if int(grade) > 0:
            relevant.setdefault(query_id, set()).add(document_id)
    return Retrieval(
        name=name,
        document_ids=[document["id"] for document in documents],
        documents=[document["text"] for document in documents],
        query_ids=[row[0] for row in queries],
        queries=[row[1] for row in queries],
        relevant=relevant,
    )


def read_sts() -> tuple[list[float], list[str], list[str]]:
    """Read STS-B dev: gold similarity, first sentences, second sentences."""
    rows = _rows(DATA / "stsb.en.dev.tsv")
    return [float(r[0]) for r in rows], [r[1] for r in rows], [r[2] for r in rows]


def read_clinc() -> tuple[list[str], list[str]]:
    """Read CLINC150's test set: intents, "oos" for out of scope, and queries."""
    rows = _rows(DATA / "clinc150.test.tsv")
    return [row[0] for row in rows], [row[1] for row in rows]


def read_jsonl(name: str) -> list[dict[str, Any]]:
    """Read one JSON object a line."""
    with (DATA / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _rows(path: Path) -> list[list[str]]:
    # Not splitlines(): some texts hold U+2028 and other characters that it cuts at.
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]
