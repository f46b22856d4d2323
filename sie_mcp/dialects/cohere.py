"""`POST /v2/embed` in Cohere's shape, over encode."""

import secrets
from typing import Any, Literal

import numpy as np
import pydantic
from pydantic import Field

from sie_mcp import wire
from sie_mcp.dialects import errors
from sie_mcp.dialects.in_base64 import Base64, InBase64
from sie_mcp.dialects.operation import Operation, SidedBody, Texts, encode
from sie_mcp.dialects.rerank import ApiVersion, BilledUnits, Meta
from sie_mcp.wire_fields import Array

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
_DTYPES: dict[str, wire.OutputDtype] = {"float": "float32", "base64": "float32"}


class EmbedRequest(SidedBody):
    """Cohere's body. `truncate` NONE makes a text that is too long an error."""

    texts: Texts
    embedding_types: list[EmbeddingType] = Field(default=["float"], min_length=1)
    output_dimension: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    truncate: Literal["NONE", "END"] = "END"


class Embeddings(pydantic.BaseModel):
    """The vectors in each form that was asked for; the others are None."""

    model_config = pydantic.ConfigDict(serialize_by_alias=True)

    float_: list[Array] | None = Field(default=None, serialization_alias="float")
    int8: list[Array] | None = None
    uint8: list[Array] | None = None
    binary: list[Array] | None = None
    ubinary: list[Array] | None = None
    base64: list[Base64] | None = None


class EmbedResponse(pydantic.BaseModel):
    """Cohere's answer; `truncated` are the places of the texts that were cut."""

    id: str
    response_type: Literal["embeddings_by_type"] = "embeddings_by_type"
    embeddings: Embeddings
    texts: list[str]
    model: str
    truncated: list[int]
    meta: Meta


def to_encode(body: EmbedRequest) -> list[wire.Request]:
    """Translate the request: one of ours for each dtype."""
    options = wire.EncodeOptions(
        is_query=body.is_query,
        dimensions=body.output_dimension,
        max_length=body.max_tokens,
        truncate=body.truncate != "NONE",
    )
    items = [wire.Item(text=text) for text in body.texts]
    requests = []
    for dtype in _dtypes(body):
        requests += encode(items, output_types=["dense"], output_dtype=dtype, options=options)
    return requests


def from_encode(body: EmbedRequest, responses: list[Any]) -> EmbedResponse:
    """Translate the answers.

    Raises:
        SieError: an item failed; this shape has no place for one item's error.
    """
    vectors = {
        dtype: _vectors(response) for dtype, response in zip(_dtypes(body), responses, strict=True)
    }
    found: dict[str, Any] = {}
    for kind in body.embedding_types:
        own = vectors[_dtype(kind)]
        if kind == "base64":
            found[kind] = [InBase64(one) for one in own]
        else:
            found["float_" if kind == "float" else kind] = own
    first: wire.EncodeResponse = responses[0]
    units = BilledUnits(input_tokens=first.usage.input_tokens)
    return EmbedResponse(
        id=secrets.token_hex(16),
        embeddings=Embeddings(**found),
        texts=body.texts,
        model=first.model,
        truncated=[place for place, item in enumerate(first.items) if item.truncated],
        meta=Meta(api_version=ApiVersion(version="2"), billed_units=units),
    )


def _dtypes(body: EmbedRequest) -> list[wire.OutputDtype]:
    return list(dict.fromkeys(_dtype(kind) for kind in body.embedding_types))


def _dtype(kind: EmbeddingType) -> wire.OutputDtype:
    return _DTYPES.get(kind) or kind  # type: ignore[return-value]  # the others are dtypes


def _vectors(response: wire.EncodeResponse) -> list[np.ndarray]:
    vectors = []
    for index, item in enumerate(response.items):
        if item.dense is None:
            raise errors.item_failure(f"texts[{index}]", item.error)
        vectors.append(item.dense.values)
    return vectors


OPERATIONS = (
    Operation(
        paths=("/v2/embed",),
        name="embed_v2",
        summary="Dense vectors in Cohere's shape",
        body=EmbedRequest,
        answer=EmbedResponse,
        error=(errors.CohereError, errors.cohere),
        to_requests=to_encode,
        from_responses=from_encode,
    ),
)
