"""TEI's vectors: `/embed`, `/embed_all`, `/embed_sparse` and `/similarity`, over encode.

One model a process there: here a field or header names it, else the default model answers.
"""

from typing import Any, Literal

import numpy as np
import pydantic
from pydantic import Field, RootModel

from sie_mcp import wire
from sie_mcp.dialects import errors
from sie_mcp.dialects.operation import (
    DialectBody,
    Input,
    Operation,
    SidedBody,
    Texts,
    encode,
    items_of,
    one,
)
from sie_mcp.wire_fields import Array, Text

ERROR = (errors.TeiError, errors.tei)


class TeiBody(SidedBody):
    """What TEI's vectors have in common. Texts are cut at their end where `truncate` allows it."""

    inputs: Input
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"
    prompt_name: str | None = None

    def options(self, **more: Any) -> wire.EncodeOptions:
        """Return how to encode."""
        return wire.EncodeOptions(
            is_query=self.is_query,
            prompt_name=self.prompt_name,
            truncate=self.truncate is not False,
            **more,
        )


class EmbedRequest(TeiBody):
    """The body of `/embed`."""

    normalize: bool = True
    dimensions: int | None = Field(default=None, ge=1)


class SparseValue(pydantic.BaseModel):
    """One entry of a sparse vector."""

    index: int
    value: float


class SimilarityInputs(pydantic.BaseModel):
    """A sentence, and those to compare it with."""

    source_sentence: Text
    sentences: Texts


class SimilarityParameters(pydantic.BaseModel):
    """How to read the sentences."""

    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"
    prompt_name: str | None = None


class SimilarityRequest(DialectBody):
    """The body of `/similarity`."""

    inputs: SimilarityInputs
    parameters: SimilarityParameters | None = None


class Vectors(RootModel[list[Array]]):
    """One vector an input, or one row a token of it."""


class SparseVectors(RootModel[list[list[SparseValue]]]):
    """The entries that are not zero, an input a list."""


class Similarities(RootModel[list[float]]):
    """Cosines, one a sentence."""


def _to_dense(body: EmbedRequest) -> list[wire.Request]:
    options = body.options(normalize=body.normalize, dimensions=body.dimensions)
    return encode(items_of(body.inputs), output_types=["dense"], options=options)


def _to_sparse(body: TeiBody) -> list[wire.Request]:
    return encode(items_of(body.inputs), output_types=["sparse"], options=body.options())


def _to_rows(body: TeiBody) -> list[wire.Request]:
    return encode(items_of(body.inputs), output_types=["multivector"], options=body.options())


def _from_dense(_: EmbedRequest, responses: list[Any]) -> Vectors:
    return Vectors([item.dense.values for item in _done(responses, "dense")])


def _from_rows(_: TeiBody, responses: list[Any]) -> Vectors:
    return Vectors([item.multivector.values for item in _done(responses, "multivector")])


def _from_sparse(_: TeiBody, responses: list[Any]) -> SparseVectors:
    return SparseVectors(
        [
            [
                SparseValue(index=index, value=value)
                for index, value in zip(
                    item.sparse.indices.tolist(), item.sparse.values.tolist(), strict=True
                )
            ]
            for item in _done(responses, "sparse")
        ]
    )


def _to_similarity(body: SimilarityRequest) -> list[wire.Request]:
    given = body.parameters or SimilarityParameters()
    options = wire.EncodeOptions(
        normalize=True, prompt_name=given.prompt_name, truncate=given.truncate is not False
    )
    texts = [body.inputs.source_sentence, *body.inputs.sentences]
    return encode([wire.Item(text=one) for one in texts], output_types=["dense"], options=options)


def _from_similarity(_: SimilarityRequest, responses: list[Any]) -> Similarities:
    source, *others = (item.dense.values for item in _done(responses, "dense"))
    return Similarities((np.stack(others) @ source).tolist())


def _done(responses: list[Any], kind: wire.VectorType) -> list[Any]:
    """Return the items of the only answer.

    Raises:
        SieError: one of them has no vector of this kind.
    """
    items: list[Any] = one(responses).items
    for index, item in enumerate(items):
        if getattr(item, kind) is None:
            raise errors.item_failure(f"inputs[{index}]", item.error)
    return items


OPERATIONS = (
    Operation(
        paths=("/embed",),
        name="tei_embed",
        summary="Dense vectors in TEI's shape",
        body=EmbedRequest,
        answer=Vectors,
        error=ERROR,
        to_requests=_to_dense,
        from_responses=_from_dense,
    ),
    Operation(
        paths=("/embed_all",),
        name="tei_embed_all",
        summary="One vector a token, of models that make them",
        body=TeiBody,
        answer=Vectors,
        error=ERROR,
        to_requests=_to_rows,
        from_responses=_from_rows,
    ),
    Operation(
        paths=("/embed_sparse",),
        name="tei_embed_sparse",
        summary="Sparse vectors in TEI's shape",
        body=TeiBody,
        answer=SparseVectors,
        error=ERROR,
        to_requests=_to_sparse,
        from_responses=_from_sparse,
    ),
    Operation(
        paths=("/similarity",),
        name="tei_similarity",
        summary="Cosines of one sentence with others",
        body=SimilarityRequest,
        answer=Similarities,
        error=ERROR,
        to_requests=_to_similarity,
        from_responses=_from_similarity,
    ),
)
