"""A slice of XQuAD in English, and how well a search does on it. Knows no store."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evals import measures
from evals.datasets import read_retrieval
from tests.integrations import figures

MINILM, POTION, SPLADE = "all-MiniLM-L6-v2", "potion-base-8M", "splade-tiny"
NUM_DOCUMENTS, NUM_QUERIES = 60, 80
# How far a store's figure may be from that of the vectors themselves.
TOLERANCE = 0.005
TOP = 10


@dataclass(frozen=True)
class Collection:
    """Documents and queries, what is relevant, and the vectors that an engine gives them."""

    ids: list[str]
    documents: list[str]
    queries: list[str]
    relevant: list[set[str]]
    document_vectors: np.ndarray
    query_vectors: np.ndarray

    def direct(self) -> float:
        """nDCG@10 of the vectors themselves, by cosine."""
        scores = _unit(self.query_vectors) @ _unit(self.document_vectors).T
        return self._mean(measures.rankings(scores, self.ids, TOP))

    def through(self, search: Callable[[str], list[str]]) -> float:
        """nDCG@10 of a search that gives ids, best first."""
        return self._mean([search(query) for query in self.queries])

    def first(self, count: int) -> "Collection":
        """The same with so many queries."""
        vectors = self.query_vectors[:count]
        queries, relevant = self.queries[:count], self.relevant[:count]
        return replace(self, queries=queries, relevant=relevant, query_vectors=vectors)

    def is_matched(self, search: Callable[[str], list[str]]) -> bool:
        """Whether a search does as well as the vectors themselves, which do well."""
        direct, through = self.direct(), self.through(search)
        figures.found(direct, through)
        assert direct > 0.7
        return abs(through - direct) <= TOLERANCE

    def id_of(self, document: str) -> str:
        return self.ids[self.documents.index(document)]

    def _mean(self, rankings: list[list[str]]) -> float:
        pairs = zip(rankings, self.relevant, strict=True)
        return float(np.mean([measures.ndcg(one, relevant, TOP) for one, relevant in pairs]))


def read_slice(embed: Callable[[str], np.ndarray]) -> Collection:
    """Read the first documents and the first queries about them."""
    whole = read_retrieval("xquad_en")
    ids = whole.document_ids[:NUM_DOCUMENTS]
    documents = whole.documents[:NUM_DOCUMENTS]
    asked = [
        (query, whole.relevant[one])
        for one, query in zip(whole.query_ids, whole.queries, strict=True)
        if whole.relevant[one] <= set(ids)
    ][::3][:NUM_QUERIES]
    queries = [query for query, _ in asked]
    return Collection(
        ids,
        documents,
        queries,
        [relevant for _, relevant in asked],
        np.stack([embed(one) for one in documents]),
        np.stack([embed(one) for one in queries]),
    )


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
