"""`POST /v1/rerank` and `/v2/rerank` in the shapes of Cohere and Jina, over score."""

import secrets
from typing import Annotated, Any

import pydantic
from pydantic import Field

from sie_mcp import wire
from sie_mcp.dialects import errors
from sie_mcp.dialects.operation import DialectBody, Operation, one, text_in
from sie_mcp.wire_fields import Text


class Document(pydantic.BaseModel):
    """A document as an object."""

    text: Text


class RerankRequest(DialectBody):
    """The body; `raw_scores` returns logits, without `truncate` a long document is an error."""

    query: Text
    documents: Annotated[list[Text | Document], Field(min_length=1)]
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False
    raw_scores: bool = False
    truncate: bool = True
    instruction: Text | None = None
    max_tokens_per_doc: int | None = Field(default=None, ge=1)


class RerankResult(pydantic.BaseModel):
    """One document's place; `index` is its place in the request."""

    index: int
    relevance_score: float | None
    document: Document | None = None
    truncated: bool
    error: wire.ItemError | None = None


class RerankUsage(pydantic.BaseModel):
    """Tokens the model read."""

    total_tokens: int


class ApiVersion(pydantic.BaseModel):
    """Which of Cohere's versions an answer has the shape of."""

    version: str


class BilledUnits(pydantic.BaseModel):
    """Cohere's counts; nothing is billed."""

    search_units: int = 1
    input_tokens: int | None = None


class Meta(pydantic.BaseModel):
    """What Cohere's clients read beside the results."""

    api_version: ApiVersion
    billed_units: BilledUnits


class RerankResponse(pydantic.BaseModel):
    """Most relevant first. `score_type` says what the numbers are."""

    id: str
    model: str
    results: list[RerankResult]
    score_type: wire.ScoreType
    usage: RerankUsage
    meta: Meta


def to_score(body: RerankRequest) -> list[wire.Request]:
    """Translate the request."""
    return [
        wire.ScoreRequest(
            query=wire.Item(text=body.query),
            items=[wire.Item(text=text_in(document)) for document in body.documents],
            instruction=body.instruction,
            options=wire.ScoreOptions(
                raw_scores=body.raw_scores,
                truncate=body.truncate,
                max_length=body.max_tokens_per_doc,
            ),
        )
    ]


def _answer(body: RerankRequest, responses: list[Any], version: str) -> RerankResponse:
    response: wire.ScoreResponse = one(responses)
    results = [
        RerankResult(
            index=found.index,
            relevance_score=found.score,
            truncated=found.truncated,
            error=found.error,
            document=Document(text=text_in(body.documents[found.index]))
            if body.return_documents
            else None,
        )
        for found in response.scores[: body.top_n]
    ]
    units = BilledUnits(input_tokens=response.usage.input_tokens)
    return RerankResponse(
        id=secrets.token_hex(16),
        model=response.model,
        results=results,
        score_type=response.score_type,
        usage=RerankUsage(total_tokens=response.usage.input_tokens),
        meta=Meta(api_version=ApiVersion(version=version), billed_units=units),
    )


def from_score(body: RerankRequest, responses: list[Any]) -> RerankResponse:
    """Translate the answer, for version 1 and for Jina."""
    return _answer(body, responses, "1")


def _from_score_v2(body: RerankRequest, responses: list[Any]) -> RerankResponse:
    return _answer(body, responses, "2")


OPERATIONS = (
    Operation(
        paths=("/v1/rerank",),
        name="rerank",
        summary="Documents by relevance to a query, as Cohere's version 1 and Jina answer",
        body=RerankRequest,
        answer=RerankResponse,
        error=(errors.RerankError, errors.rerank),
        to_requests=to_score,
        from_responses=from_score,
    ),
    Operation(
        paths=("/v2/rerank",),
        name="rerank_v2",
        summary="Documents by relevance to a query, as Cohere's version 2 answers",
        body=RerankRequest,
        answer=RerankResponse,
        error=(errors.CohereError, errors.cohere),
        to_requests=to_score,
        from_responses=_from_score_v2,
    ),
)
