"""`POST /v1/embeddings` in OpenAI's shape, over encode; Jina's `task` and Voyage's words too."""

from typing import Any, Literal

import pydantic
from pydantic import Field

from sie_mcp import wire
from sie_mcp.dialects import errors
from sie_mcp.dialects.in_base64 import InBase64, NumbersOrBase64
from sie_mcp.dialects.operation import Input, Operation, SidedBody, encode, is_query, items_of, one

_SIDES = {"retrieval.query": True, "retrieval.passage": False}


class EmbeddingsRequest(SidedBody):
    """OpenAI's body; `user` is accepted and not kept.

    `input_type` or Jina's `task` chooses the prompt of a role; without either the text has the
    model's default prompt. Token ids are those of the model's own tokenizer.
    """

    input: Input
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    task: str | None = None
    user: str | None = None
    truncate: bool = True


class EmbeddingData(pydantic.BaseModel):
    """One vector: numbers, or base64 of little-endian float32; and how much of the text it read."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: NumbersOrBase64
    num_tokens: int
    truncated: bool


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


def to_encode(body: EmbeddingsRequest) -> list[wire.Request]:
    """Translate the request."""
    side = body.is_query if body.task is None else _SIDES.get(body.task, is_query(body.task))
    options = wire.EncodeOptions(dimensions=body.dimensions, is_query=side, truncate=body.truncate)
    return encode(items_of(body.input), output_types=["dense"], options=options)


def from_encode(body: EmbeddingsRequest, responses: list[Any]) -> EmbeddingsResponse:
    """Translate the answer.

    Raises:
        SieError: an item failed, with its code; this shape has no place for one item's error.
    """
    response: wire.EncodeResponse = one(responses)
    data = []
    for index, item in enumerate(response.items):
        if item.dense is None:
            raise errors.item_failure(f"input[{index}]", item.error)
        values = item.dense.values
        data.append(
            EmbeddingData(
                index=index,
                embedding=InBase64(values) if body.encoding_format == "base64" else values,
                num_tokens=item.num_tokens,
                truncated=item.truncated,
            )
        )
    tokens = response.usage.input_tokens
    usage = EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens)
    return EmbeddingsResponse(data=data, model=response.model, usage=usage)


OPERATIONS = (
    Operation(
        paths=("/v1/embeddings", "/embeddings"),
        name="embeddings",
        summary="Dense vectors in OpenAI's shape",
        body=EmbeddingsRequest,
        answer=EmbeddingsResponse,
        error=(errors.OpenAIError, errors.openai),
        to_requests=to_encode,
        from_responses=from_encode,
    ),
)
