"""`POST /v1/embeddings` in OpenAI's shape, over encode."""

import base64
from typing import Annotated, Literal

import numpy as np
import pydantic
from pydantic import Field

from sie_mcp import wire
from sie_mcp.errors import InferenceError, error_classes
from sie_mcp.wire_fields import Text


class EmbeddingsRequest(pydantic.BaseModel):
    """OpenAI's body; `user` is accepted and not kept.

    `input_type` chooses the prompt of a role; without it the text has the model's default prompt.
    """

    model: str = "auto"
    input: Text | Annotated[list[Text], Field(min_length=1)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    input_type: Literal["query", "document"] | None = None
    user: str | None = None


class EmbeddingData(pydantic.BaseModel):
    """One vector: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(pydantic.BaseModel):
    """Tokens the model read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(pydantic.BaseModel):
    """OpenAI's answer, one entry an input, in order."""

    object: Literal["list"] = "list"
    data: list[EmbeddingData]
    model: str
    usage: EmbeddingsUsage


def to_encode(body: EmbeddingsRequest) -> wire.EncodeRequest:
    """Translate the request."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    is_query = None if body.input_type is None else body.input_type == "query"
    options = wire.EncodeOptions(dimensions=body.dimensions, is_query=is_query)
    params = wire.EncodeParams(output_types=["dense"], options=options)
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts], params=params)


def from_encode(body: EmbeddingsRequest, response: wire.EncodeResponse) -> EmbeddingsResponse:
    """Translate the answer.

    Raises:
        SieError: an item failed, with its code; this shape has no place for one item's error.
    """
    data = []
    for index, item in enumerate(response.items):
        if item.dense is None:
            error = item.error or wire.ItemError(code=InferenceError.code, message="no vector")
            cls = error_classes().get(error.code, InferenceError)
            raise cls(f"input[{index}]: {error.message}")
        vector = item.dense.values
        values: list[float] | str = vector.tolist()
        if body.encoding_format == "base64":
            values = base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode("ascii")
        data.append(EmbeddingData(index=index, embedding=values))
    tokens = response.usage.input_tokens
    usage = EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens)
    return EmbeddingsResponse(data=data, model=response.model, usage=usage)
