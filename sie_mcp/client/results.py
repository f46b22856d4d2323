"""What the programs' client gives: typed results, with arrays where a program wants arrays.

Built from the wire's answers; nothing here sends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from sie_mcp import wire
from sie_mcp.errors import InferenceError, InvalidInput, SieError, error_classes

Item = str | wire.Item
VectorT = TypeVar("VectorT")

_DTYPES: dict[wire.OutputDtype, type[np.generic]] = {
    "float32": np.float32,
    "float16": np.float16,
    "int8": np.int8,
    "uint8": np.uint8,
    "binary": np.int8,
    "ubinary": np.uint8,
}


@dataclass(frozen=True, slots=True)
class SparseVector:
    """The entries of a sparse vector that are not zero.

    Attributes:
        indices: int32 `(num_entries,)`, ascending.
        values: float32 `(num_entries,)`.
        dims: Of the whole vector: the size of the vocabulary.
    """

    indices: np.ndarray
    values: np.ndarray
    dims: int


@dataclass(frozen=True)
class Encoded:
    """The vectors of n items, in the order sent. A kind that the model did not give raises.

    Attributes:
        model: The name the engine keeps the model under.
        items: The engine's own answer, one entry an item.
        num_tokens: Tokens read in all.
        errors: By the item's place; empty unless errors are kept.
    """

    model: str
    items: tuple[wire.EncodedItem, ...]
    num_tokens: int = 0
    errors: dict[int, SieError] = field(default_factory=dict)

    @cached_property
    def dense(self) -> np.ndarray:
        """`(n, dims)`: float32, or the dtype asked for. An item that failed is a row of NaN."""
        return self._rows("dense", [item.dense for item in self.items])

    @cached_property
    def muvera(self) -> np.ndarray:
        """The fixed-size form of token vectors, as `dense`."""
        return self._rows("muvera", [item.muvera for item in self.items])

    @cached_property
    def scales(self) -> np.ndarray | None:
        """float32 `(n,)`: what int8 and uint8 rows are multiplied by; None where there are none."""
        found = [item.dense.scale if item.dense else None for item in self.items]
        if all(scale is None for scale in found):
            return None
        return np.array([np.nan if one is None else one for one in found], dtype=np.float32)

    @cached_property
    def sparse(self) -> list[SparseVector]:
        """One vector an item; that of an item that failed is empty."""
        found = self._given("sparse", [item.sparse for item in self.items])
        dims = next(one.dims for one in found if one is not None)
        return [_sparse(one, dims) for one in found]

    @cached_property
    def multivector(self) -> list[np.ndarray]:
        """`(num_tokens, token_dims)` an item; `(0, token_dims)` where it failed."""
        found = self._given("multivector", [item.multivector for item in self.items])
        dims = next(one.token_dims for one in found if one is not None)
        nothing = np.zeros((0, dims), dtype=np.float32)
        return [nothing if one is None else _numbers(one) for one in found]

    def _rows(self, kind: str, given: Sequence[wire.Dense | None]) -> np.ndarray:
        found = self._given(kind, given)
        known = next(_numbers(one) for one in found if one is not None)
        nothing = np.full_like(known, np.nan if known.dtype.kind == "f" else 0)
        return np.stack([nothing if one is None else _numbers(one) for one in found])

    def _given(self, kind: str, found: Sequence[VectorT | None]) -> Sequence[VectorT | None]:
        missing = [place for place, one in enumerate(found) if one is None]
        if len(missing) == len(found) or set(missing) - self.errors.keys():
            given = [name for name in wire.EncodedItem.model_fields if self._has(name)]
            raise InvalidInput(
                f"{self.model} gave no {kind} vectors, but: {', '.join(given) or 'none'}; "
                f"ask for them by outputs=[{kind!r}]"
            )
        return found

    def _has(self, name: str) -> bool:
        kinds = ("dense", "sparse", "multivector", "muvera")
        return name in kinds and any(getattr(item, name) is not None for item in self.items)


@dataclass(frozen=True, slots=True)
class Scored:
    """How well n items fit a query, in the order sent.

    Attributes:
        scores: float64 `(n,)`; NaN where the item failed.
        score_type: What the numbers are: a logit, a probability or a similarity.
    """

    model: str
    scores: np.ndarray
    score_type: wire.ScoreType
    num_tokens: int = 0
    errors: dict[int, SieError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One item of a ranking: its place in the list that was sent, its score, and its text."""

    index: int
    score: float
    text: str | None


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was found in n items, in the order sent; offsets count code points unless asked."""

    model: str
    items: tuple[wire.ExtractedItem, ...]
    num_tokens: int = 0
    errors: dict[int, SieError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Classified:
    """One item's labels: the best, its score, and the scores of all that came back, best first."""

    label: str
    score: float
    scores: dict[str, float]


def errors_of(items: Iterable[wire.ItemResult | wire.Score], *, keep: bool) -> dict[int, SieError]:
    """Return the errors of single items by place.

    Raises:
        SieError: the first of them, with its own type, unless they are kept.
    """
    errors: dict[int, SieError] = {}
    for place, item in enumerate(items):
        if item.error is None:
            continue
        cls = error_classes().get(item.error.code, InferenceError)
        errors[place] = cls(f"items[{place}]: {item.error.message}")
        if not keep:
            raise errors[place]
    return errors


def scored(response: wire.ScoreResponse, *, keep: bool) -> Scored:
    """Put scores back into the order sent.

    Raises:
        SieError: an item has none, unless errors are kept.
    """
    in_order = sorted(response.scores, key=lambda one: one.index)
    errors = errors_of(in_order, keep=keep)
    values = [np.nan if one.score is None else one.score for one in in_order]
    return Scored(
        response.model,
        np.array(values, dtype=np.float64),
        response.score_type,
        response.usage.input_tokens,
        errors,
    )


def classified(found: Extracted) -> list[Classified]:
    """Read the labels of each item.

    Raises:
        InvalidInput: the model gives none.
    """
    results = []
    for place, item in enumerate(found.items):
        if not item.classifications:
            raise InvalidInput(
                f"{found.model} gave items[{place}] no label; name a model that classifies "
                "(models() lists them), or lower the threshold"
            )
        best, *_ = ordered = sorted(item.classifications, key=lambda one: -one.score)
        scores = {one.label: one.score for one in ordered}
        results.append(Classified(best.label, best.score, scores))
    return results


def _numbers(one: wire.Dense | wire.Multivector) -> np.ndarray:
    """Return the numbers in the dtype that they have on the wire; JSON would widen them."""
    return np.asarray(one.values, dtype=_DTYPES[one.dtype])


def _sparse(one: wire.Sparse | None, dims: int) -> SparseVector:
    indices = np.zeros(0) if one is None else one.indices
    values = np.zeros(0) if one is None else one.values
    return SparseVector(
        np.asarray(indices, dtype=np.int32), np.asarray(values, dtype=np.float32), dims
    )
