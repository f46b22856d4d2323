"""A measured number beside what it should be, and those of a search over a whole collection."""

from dataclasses import dataclass

import numpy as np

from evals import datasets, measures

TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number beside what it should be (None: nothing to compare with).

    `is_floor`: the reference comes from another recipe, so that more is right too.
    """

    model: str
    measure: str
    value: float
    reference: float | None
    is_floor: bool = False

    @property
    def is_right(self) -> bool:
        """Within tolerance of the reference; above a floor counts as well."""
        if self.reference is None or (self.is_floor and self.value > self.reference):
            return True
        return abs(self.value - self.reference) <= TOLERANCE


def retrieval_figures(
    data: datasets.Retrieval, scores: np.ndarray, model: str, references: dict[str, float]
) -> list[Figure]:
    """nDCG@10 and recall@100 over the judged queries."""
    runs = measures.rankings(scores, data.document_ids, 100)
    judged = [
        (run, data.relevant[query])
        for run, query in zip(runs, data.query_ids, strict=True)
        if query in data.relevant
    ]
    values = {
        "nDCG@10": float(np.mean([measures.ndcg(run, gold) for run, gold in judged])),
        "R@100": float(np.mean([measures.recall(run, gold, 100) for run, gold in judged])),
    }
    return [
        Figure(model, f"{data.name} {name}", value, references.get(name))
        for name, value in values.items()
    ]
