"""vLLM's `/score` and `/pooling`, over score and encode."""

import secrets
import time
from typing import Any, Literal

import pydantic
from pydantic import Field

from sie_mcp import wire
from sie_mcp.dialects import errors
from sie_mcp.dialects.openai import EmbeddingsUsage
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
from sie_mcp.errors import InvalidInput
from sie_mcp.wire_fields import Array, Text

ERROR = (errors.VllmError, errors.vllm)


class ScoreRequest(DialectBody):
    """One text against each of others, or as many against as many, each with its own."""

    text_1: Text | Texts
    text_2: Text | Texts
    raw_scores: bool = False
    truncate_prompt_tokens: int | None = Field(default=None, ge=1)


class ScoreData(pydantic.BaseModel):
    """The score of one pair."""

    index: int
    object: Literal["score"] = "score"
    score: float


class ScoreResponse(pydantic.BaseModel):
    """The scores in the order of `text_2`; `score_type` says what the numbers are."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[ScoreData]
    score_type: wire.ScoreType
    usage: EmbeddingsUsage


class PoolingRequest(SidedBody):
    """`task` token_embed asks for one vector a token, embed for one of all; None: the model's."""

    input: Input
    task: Literal["embed", "token_embed"] | None = None
    encoding_format: Literal["float"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    truncate: bool = True


class PoolingData(pydantic.BaseModel):
    """The vector of one input, or its rows."""

    index: int
    object: Literal["pooling"] = "pooling"
    data: Array


class PoolingResponse(pydantic.BaseModel):
    """One entry an input, in order."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[PoolingData]
    usage: EmbeddingsUsage


def _to_score(body: ScoreRequest) -> list[wire.Request]:
    firsts, seconds = _texts(body.text_1), _texts(body.text_2)
    if len(firsts) == 1:
        groups = [(firsts[0], seconds)]
    elif len(firsts) == len(seconds):
        groups = [(first, [second]) for first, second in zip(firsts, seconds, strict=True)]
    else:
        raise InvalidInput(
            f"text_1 has {len(firsts)} texts and text_2 has {len(seconds)}; "
            "send one in text_1, or as many as in text_2"
        )
    options = wire.ScoreOptions(raw_scores=body.raw_scores, max_length=body.truncate_prompt_tokens)
    return [
        wire.ScoreRequest(
            query=wire.Item(text=first),
            items=[wire.Item(text=second) for second in group],
            options=options,
        )
        for first, group in groups
    ]


def _from_score(_: ScoreRequest, responses: list[Any]) -> ScoreResponse:
    scores: list[float] = []
    for response in responses:
        for found in sorted(response.scores, key=lambda one: one.index):
            if found.score is None:
                raise errors.item_failure(f"text_2[{len(scores)}]", found.error)
            scores.append(found.score)
    return ScoreResponse(
        id=f"score-{secrets.token_hex(16)}",
        created=int(time.time()),
        model=responses[0].model,
        data=[ScoreData(index=index, score=score) for index, score in enumerate(scores)],
        score_type=responses[0].score_type,
        usage=_usage(responses),
    )


def _to_pooling(body: PoolingRequest) -> list[wire.Request]:
    kinds = {"embed": ["dense"], "token_embed": ["multivector"], None: None}
    options = wire.EncodeOptions(
        dimensions=body.dimensions, is_query=body.is_query, truncate=body.truncate
    )
    return encode(items_of(body.input), output_types=kinds[body.task], options=options)


def _from_pooling(_: PoolingRequest, responses: list[Any]) -> PoolingResponse:
    response: wire.EncodeResponse = one(responses)
    data = []
    for index, item in enumerate(response.items):
        vector = item.dense or item.multivector
        if vector is None and item.error is None and item.sparse is not None:
            raise InvalidInput(f"{response.model} makes sparse vectors; ask /embed_sparse for them")
        if vector is None:
            raise errors.item_failure(f"input[{index}]", item.error)
        data.append(PoolingData(index=index, data=vector.values))
    return PoolingResponse(
        id=f"pool-{secrets.token_hex(16)}",
        created=int(time.time()),
        model=response.model,
        data=data,
        usage=_usage(responses),
    )


def _usage(responses: list[Any]) -> EmbeddingsUsage:
    tokens = sum(response.usage.input_tokens for response in responses)
    return EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens)


def _texts(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


OPERATIONS = (
    Operation(
        paths=("/score", "/v1/score"),
        name="vllm_score",
        summary="Scores of pairs in vLLM's shape",
        body=ScoreRequest,
        answer=ScoreResponse,
        error=ERROR,
        to_requests=_to_score,
        from_responses=_from_score,
    ),
    Operation(
        paths=("/pooling",),
        name="vllm_pooling",
        summary="Vectors in vLLM's shape, dense or one a token",
        body=PoolingRequest,
        answer=PoolingResponse,
        error=ERROR,
        to_requests=_to_pooling,
        from_responses=_from_pooling,
    ),
)
