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

# How vectors that are compared are read, of documents and of queries.
_PARAMS = [
    wire.EncodeParams(options=wire.EncodeOptions(is_query=is_query, normalize=True))
    for is_query in (False, True)
]
# The query's vector and those of items to their similarities.
Compare = Callable[[Any, Sequence[Any]], Any]


def maxsim(query: np.ndarray, item: np.ndarray) -> float:
    """Sum over query tokens of the best cosine with any item token; 0 for an empty item."""
    return float(maxsims(query, [item])[0])


def maxsims(query: np.ndarray, items: Sequence[np.ndarray]) -> np.ndarray:
    """Return the `maxsim` of each item, float32 `(num_items,)`: one product for all of them."""
    found = np.zeros(len(items), np.float32)
    # Only those with tokens: a segment without any has no maximum.
    full = [place for place, one in enumerate(items) if len(one)]
    if not full or not len(query):
        return found
    starts = np.cumsum([0, *(len(items[place]) for place in full[:-1])])
    products = np.concatenate([items[place] for place in full]) @ query.T
    found[full] = np.maximum.reduceat(products, starts, axis=0).sum(axis=1)
    return found


def dots(query: np.ndarray, items: Sequence[np.ndarray]) -> list[float]:
    """Return the dot products of dense vectors, each by itself: equal ones have equal scores."""
    return [float(query @ one) for one in items]


def sparse_dots(query: wire.Sparse, items: Sequence[wire.Sparse]) -> list[float]:
    """Return the dot products of sparse vectors."""
    return [sparse_dot(query, one) for one in items]


def sparse_dot(query: wire.Sparse, item: wire.Sparse) -> float:
    """Dot product of two sparse vectors."""
    _, own, other = np.intersect1d(
        query.indices, item.indices, assume_unique=True, return_indices=True
    )
    return float(query.values[own] @ item.values[other])


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one kind of vector is compared.

    Attributes:
        result: Makes the vector from a sequence's rows: the output's own.
        compare: Larger is more similar.
        scored: The output that holds what a batch has already compared; empty: there is none.
        is_mean: Divided by the query's tokens, where the request does not say.
    """

    result: Callable[..., Any]
    compare: Compare
    scored: str = ""
    is_mean: bool = False


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
        errors = [query_error or reading_error(one, outputs) for one in readings]
        good = [place for place, error in enumerate(errors) if error is None]
        values: list[float | None] = [None] * len(readings)
        if good:
            wanted = [readings[place] for place in good]
            found = self._values(request.options, query, wanted, prepared, outputs)
            for place, value in zip(good, found, strict=True):
                values[place] = value if matching is None else matching.score(value, raw=raw)
        scores = [
            _score(item, index, readings[index], values[index], errors[index])
            for index, item in enumerate(request.items)
        ]
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

    def _values(
        self,
        options: wire.ScoreOptions,
        query: Reading,
        readings: Sequence[Reading],
        prepared: Prepared,
        outputs: list[Result],
    ) -> list[float]:
        """Return the items' weighted means of all that is compared."""
        weights = self._chosen(options)
        total = np.zeros(len(readings))
        for name, weight in weights.items():
            rule = self._comparisons[name]
            own = self._vector(name, query, prepared, outputs, is_query=True)
            found = np.array([_already(one, outputs, rule.scored) for one in readings])
            left = np.flatnonzero(np.isnan(found))
            vectors = [
                self._vector(name, readings[place], prepared, outputs, is_query=False)
                for place in left.tolist()
            ]
            found[left] = rule.compare(own, vectors)
            total += weight * found / (max(len(own), 1) if self._is_mean(name, options) else 1)
        values: list[float] = (total / sum(weights.values())).tolist()
        return values

    def _is_mean(self, name: str, options: wire.ScoreOptions) -> bool:
        if name == "multivector" and options.score_mode is not None:
            return options.score_mode == "mean"
        return self._comparisons[name].is_mean

    def _vector(
        self,
        name: str,
        reading: Reading,
        prepared: Prepared,
        outputs: list[Result],
        *,
        is_query: bool,
    ) -> Any:
        params = _PARAMS[is_query]
        if reading.sequence is None:
            found = self._comparisons[name].result(None, reading.tokens, params)
        else:
            sequence = prepared.sequences[reading.sequence]
            found = self._comparisons[name].result(outputs[reading.sequence], sequence, params)
        return found if isinstance(found, wire.Sparse) else found.values


def _already(reading: Reading, outputs: list[Result], name: str) -> float:
    """Return what an item's batch compared; NaN: nothing."""
    output = None if reading.sequence is None else outputs[reading.sequence]
    found = output.get(name) if isinstance(output, dict) else None
    return float(found[0]) if found is not None and len(found) else float("nan")


def rank(scores: Sequence[wire.Score]) -> list[wire.Score]:
    """Order by score, highest first, ties by index, failed items last; number them from 0."""
    ordered = sorted(scores, key=lambda one: (one.score is None, -(one.score or 0.0), one.index))
    for place, one in enumerate(ordered):
        one.rank = place
    return ordered


def _score(
    item: wire.Item,
    index: int,
    reading: Reading,
    value: float | None,
    error: wire.ItemError | None,
) -> wire.Score:
    fields: dict[str, Any] = {"index": index, "rank": 0, "score": value, "error": error}
    fields |= {"num_tokens": reading.num_tokens, "truncated": reading.truncated}
    return wire.of_ours(wire.Score, fields | {"item_id": item.id or f"item-{index}"})
