"""The score primitive without a scoring head: how similar the item's vectors are to the query's.

Late interaction where the model has token vectors, the dot product of sparse vectors, else cosine;
or several of them, each with a weight. A text beside an image has the score of their match.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.adapter import Prepared, Result
from sie_mcp.adapters.matching import Matching, is_crossed
from sie_mcp.adapters.results import Reading, reading_error
from sie_mcp.errors import InvalidInput

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


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one kind of vector is compared.

    `result` makes the vector from a sequence's rows: the output's own. In `compare` larger is more
    similar.
    """

    result: Callable[..., Any]
    compare: Compare


class Similarity:
    """Scores by comparing outputs of the query with the same outputs of each item.

    Args:
        comparisons: By output.
        weights: How much each output counts where a request does not say.
        matching: What becomes of a text's cosine with an image.
    """

    def __init__(
        self,
        comparisons: Mapping[str, Comparison],
        weights: Mapping[wire.VectorType, float],
        matching: Matching | None = None,
    ) -> None:
        self._comparisons = comparisons
        self._weights = weights
        self._matching = matching

    def outputs(self, options: wire.ScoreOptions) -> list[wire.OutputType]:
        """Return which vectors a request needs.

        Raises:
            InvalidInput: a weight for vectors that the model does not make, or none at all.
        """
        return [*self._chosen(options)]

    def finish(
        self,
        model: str,
        request: wire.ScoreRequest,
        prepared: Prepared,
        outputs: list[Result],
    ) -> wire.ScoreResponse:
        """Compare and rank. `prepared.notes` holds the query's reading, then the items'."""
        query, *readings = prepared.notes
        query_error = reading_error(query, outputs)
        matching, raw = self._matching_of(request), request.options.raw_scores
        weights = self._chosen(request.options)
        vectors = {
            name: self._vector(name, query, prepared, outputs, is_query=True)
            for name in weights
            if not query_error
        }
        scores = []
        for index, (item, reading) in enumerate(zip(request.items, readings, strict=True)):
            error = query_error or reading_error(reading, outputs)
            value = None
            if error is None:
                value = sum(
                    weight
                    * self._comparison(name, request.options)(
                        vectors[name],
                        self._vector(name, reading, prepared, outputs, is_query=False),
                    )
                    for name, weight in weights.items()
                ) / sum(weights.values())
                value = value if matching is None else matching.score(value, raw=raw)
            scores.append(_score(item, index, reading, value, error))
        usage = wire.Usage(input_tokens=sum(one.num_tokens for one in prepared.notes))
        return wire.ScoreResponse(
            model=model,
            query_id=request.query.id,
            scores=rank(scores),
            score_type="similarity" if matching is None else matching.score_type(raw=raw),
            usage=usage,
        )

    def _matching_of(self, request: wire.ScoreRequest) -> Matching | None:
        if self._matching is None:
            return None
        return self._matching if is_crossed(request) else None

    def _chosen(self, options: wire.ScoreOptions) -> dict[wire.VectorType, float]:
        """Return the weights that count, by output."""
        weights: Mapping[wire.VectorType, float] = options.weights or self._weights
        for name in weights:
            if name not in self._comparisons:
                known = ", ".join(self._comparisons)
                raise InvalidInput(f"weights: this model has no {name} vectors; it has: {known}")
        chosen = {name: weight for name, weight in weights.items() if weight > 0}
        if not chosen:
            raise InvalidInput("weights: at least one must be over 0")
        return chosen

    def _comparison(self, name: str, options: wire.ScoreOptions) -> Compare:
        if name == "multivector" and options.score_mode is not None:
            return mean_maxsim if options.score_mode == "mean" else maxsim
        return self._comparisons[name].compare

    def _vector(
        self,
        name: str,
        reading: Reading,
        prepared: Prepared,
        outputs: list[Result],
        *,
        is_query: bool,
    ) -> Any:
        options = wire.EncodeOptions(is_query=is_query, normalize=True)
        params = wire.EncodeParams(options=options)
        if reading.sequence is None:
            found = self._comparisons[name].result(None, reading.tokens, params)
        else:
            sequence = prepared.sequences[reading.sequence]
            found = self._comparisons[name].result(outputs[reading.sequence], sequence, params)
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
