"""The score primitive without a scoring head: how similar the item's vectors are to the query's.

Late interaction where the model has token vectors, the dot product of sparse vectors, else cosine.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Prepared, Result
from sie_mcp.adapters.results import Reading, error_of

Compare = Callable[[Any, Any], float]


def maxsim(query: np.ndarray, item: np.ndarray) -> float:
    """Sum over query tokens of the best cosine with any item token; 0 for an empty item."""
    return float((query @ item.T).max(axis=1).sum()) if len(item) and len(query) else 0.0


def mean_maxsim(query: np.ndarray, item: np.ndarray) -> float:
    """MaxSim divided by the number of query tokens: at most 1."""
    return maxsim(query, item) / max(len(query), 1)


def dot(query: np.ndarray, item: np.ndarray) -> float:
    """Dot product of two dense vectors."""
    return float(query @ item)


def sparse_dot(query: wire.Sparse, item: wire.Sparse) -> float:
    """Dot product of two sparse vectors."""
    _, own, other = np.intersect1d(
        query.indices, item.indices, assume_unique=True, return_indices=True
    )
    return float(query.values[own] @ item.values[other])


class Similarity:
    """Scores by comparing one output of the query with the same output of each item.

    Args:
        output: Which vectors to compare.
        result: Makes the vector from a sequence's rows: the output's own `result`.
        compare: Larger is more similar.
    """

    def __init__(
        self, output: wire.OutputType, result: Callable[..., Any], compare: Compare
    ) -> None:
        self.output = output
        self._result = result
        self._compare = compare

    def finish(
        self,
        model: str,
        request: wire.ScoreRequest,
        prepared: Prepared,
        outputs: list[Result],
    ) -> wire.ScoreResponse:
        """Compare and rank. `prepared.notes` holds the query's reading, then the items'."""
        query, *readings = prepared.notes
        query_error = self._error(query, outputs)
        vector = None if query_error else self._vector(query, prepared, outputs, is_query=True)
        scores = []
        for index, (item, reading) in enumerate(zip(request.items, readings, strict=True)):
            error = query_error or self._error(reading, outputs)
            value = None
            if error is None:
                own = self._vector(reading, prepared, outputs, is_query=False)
                value = self._compare(vector, own)
            scores.append(_score(item, index, reading, value, error))
        usage = wire.Usage(input_tokens=sum(one.num_tokens for one in prepared.notes))
        return wire.ScoreResponse(
            model=model,
            query_id=request.query.id,
            scores=rank(scores),
            score_type="similarity",
            usage=usage,
        )

    def _error(self, reading: Reading, outputs: list[Result]) -> wire.ItemError | None:
        return None if reading.sequence is None else error_of(outputs[reading.sequence])

    def _vector(
        self,
        reading: Reading,
        prepared: Prepared,
        outputs: list[Result],
        *,
        is_query: bool,
    ) -> Any:
        options = wire.EncodeOptions(is_query=is_query, normalize=True)
        params = wire.EncodeParams(options=options)
        if reading.sequence is None:
            found = self._result(None, None, params)
        else:
            sequence = prepared.sequences[reading.sequence]
            found = self._result(outputs[reading.sequence], sequence, params)
        return found if isinstance(found, wire.Sparse) else found.values


def rank(scores: Sequence[wire.Score]) -> list[wire.Score]:
    """Order by score, highest first, ties by index, failed items last; number them from 0."""
    ordered = sorted(scores, key=lambda one: (one.score is None, -(one.score or 0.0), one.index))
    return [one.model_copy(update={"rank": place}) for place, one in enumerate(ordered)]


def _score(
    item: wire.Item,
    index: int,
    reading: Reading,
    value: float | None,
    error: wire.ItemError | None,
) -> wire.Score:
    return wire.Score(
        item_id=item.id or f"item-{index}",
        index=index,
        score=value,
        rank=0,
        num_tokens=reading.num_tokens,
        truncated=reading.truncated,
        error=error,
    )
