"""`POST /v1/rerank` in the shape of Cohere and Jina, over score."""

from typing import Annotated

import pydantic
from pydantic import Field

from sie_mcp import wire
from sie_mcp.wire_fields import Text


class Document(pydantic.BaseModel):
    """A document as an object."""

    text: Text


class RerankRequest(pydantic.BaseModel):
    """The body; `raw_scores` returns logits, without `truncate` a long document is an error."""

    model: str = "auto"
    query: Text
    documents: Annotated[list[Text | Document], Field(min_length=1)]
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False
    raw_scores: bool = False
    truncate: bool = True


class RerankResult(pydantic.BaseModel):
    """One document's place; `index` is its place in the request."""

    index: int
    relevance_score: float | None
    document: Document | None = None
    error: wire.ItemError | None = None


class RerankUsage(pydantic.BaseModel):
    """Tokens the model read."""

    total_tokens: int


class RerankResponse(pydantic.BaseModel):
    """Most relevant first. `score_type` says what the numbers are."""

    model: str
    results: list[RerankResult]
    score_type: wire.ScoreType
    usage: RerankUsage


def to_score(body: RerankRequest) -> wire.ScoreRequest:
    """Translate the request."""
    return wire.ScoreRequest(
        query=wire.Item(text=body.query),
        items=[wire.Item(text=_text(document)) for document in body.documents],
        options=wire.ScoreOptions(raw_scores=body.raw_scores, truncate=body.truncate),
    )


def from_score(body: RerankRequest, response: wire.ScoreResponse) -> RerankResponse:
    """Translate the answer."""
    results = [
        RerankResult(
            index=one.index,
            relevance_score=one.score,
            error=one.error,
            document=Document(text=_text(body.documents[one.index]))
            if body.return_documents
            else None,
        )
        for one in response.scores[: body.top_n]
    ]
    return RerankResponse(
        model=response.model,
        results=results,
        score_type=response.score_type,
        usage=RerankUsage(total_tokens=response.usage.input_tokens),
    )


def _text(document: str | Document) -> str:
    return document if isinstance(document, str) else document.text
