"""rerank: which passages matter for a query."""

from typing import Annotated, Any

import pydantic
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.context import ToolContext, reporter, tool_context
from sie_mcp.tools.reply import fitting, reply, short
from sie_mcp.tools.texts import ModelName, Texts, check_text, to_items


class Ranked(pydantic.BaseModel):
    """One document's place."""

    index: int = Field(description="Position in documents, from 0")
    id: str | None = None
    score: float | None = None
    text: str | None = None
    truncated: bool | None = Field(default=None, description="Only its beginning was read")
    error: str | None = None


class RerankResult(pydantic.BaseModel):
    """Most relevant first."""

    model: str
    score_type: wire.ScoreType
    results: list[Ranked]
    omitted: int | None = Field(default=None, description="Documents ranked lower, not listed")


async def rerank(
    query: Annotated[str, Field(description="What you want to know")],
    documents: Texts,
    ctx: Context[Any, Any],
    top_k: Annotated[int, Field(ge=1, le=1000, description="How many to return")] = 10,
    min_score: Annotated[float | None, Field(description="Leave out lower scores")] = None,
    return_text: Annotated[bool, Field(description="Repeat the texts in the answer")] = False,
    model: ModelName = "auto",
) -> Annotated[CallToolResult, RerankResult]:
    """Order passages by how well they answer a query, most relevant first.

    Use it before reading: with more than about ten search hits, passages or file excerpts, rank
    them and read only the best. Returns indices into `documents` with scores, not the texts.
    Scores compare documents of one call only; `score_type` says whether they are probabilities.
    Not for finding documents you do not have yet, and not for cutting one long text
    (filter_context does that). Up to 1,000 documents a call; long ones are read to the model's
    limit and marked `truncated`.
    """
    context = tool_context(ctx)
    check_text(query, "query", context)
    items = to_items(documents, "documents", context)
    response = await rank_items(context.client, query, items, model, reporter(ctx))
    return reply(_result(response, items, context, top_k, min_score, return_text=return_text))


async def rank_items(
    client: EngineClient, query: str, items: list[wire.Item], model: str, progress: Progress
) -> wire.ScoreResponse:
    """Score items against a query, highest first."""
    return await client.score(model, wire.Item(text=query), items, progress=progress)


def _result(
    response: wire.ScoreResponse,
    items: list[wire.Item],
    context: ToolContext,
    top_k: int,
    min_score: float | None,
    *,
    return_text: bool,
) -> RerankResult:
    rows = [
        Ranked(
            index=one.index,
            id=items[one.index].id,
            score=None if one.score is None else short(one.score),
            text=items[one.index].text if return_text else None,
            truncated=one.truncated or None,
            error=one.error.message if one.error else None,
        )
        for one in response.scores
        if min_score is None or (one.score is not None and one.score >= min_score)
    ]
    kept, _ = fitting(rows[:top_k], context.config.max_result_tokens)
    return RerankResult(
        model=response.model,
        score_type=response.score_type,
        results=kept,
        omitted=len(items) - len(kept) or None,
    )
