"""extract_entities: names, addresses, numbers and other things with their places in the text."""

from typing import Annotated, Any

import pydantic
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.tools.context import ToolContext, reporter, tool_context
from sie_mcp.tools.reply import fitting, reply, short
from sie_mcp.tools.texts import ModelName, Texts, to_items


class Found(pydantic.BaseModel):
    """One entity; text[start:end] of the caller's text, in characters."""

    text: str
    label: str
    score: float
    start: int
    end: int


class ItemEntities(pydantic.BaseModel):
    """The entities of one text, in order of appearance."""

    index: int = Field(description="Position in texts, from 0")
    id: str | None = None
    entities: list[Found]
    truncated: bool | None = None
    error: str | None = None


class ExtractResult(pydantic.BaseModel):
    """Texts without any entity are left out."""

    model: str
    items: list[ItemEntities]
    num_entities: int
    num_texts_without: int = Field(description="Texts in which nothing was found")
    known_labels: list[str] | None = Field(default=None, description="All that this model finds")
    omitted: int | None = Field(default=None, description="Texts with entities, not listed")


async def extract_entities(
    texts: Texts,
    ctx: Context[Any, Any],
    labels: Annotated[
        list[str] | None,
        Field(description="Only these kinds, e.g. GIVEN_NAME, PHONE; default: all it knows"),
    ] = None,
    threshold: Annotated[
        float | None, Field(ge=0, le=1, description="Least probability; default 0.5")
    ] = None,
    model: ModelName = "auto",
) -> Annotated[CallToolResult, ExtractResult]:
    """Find entities in texts: each with its label, probability and character offsets.

    Use it to collect people, addresses, phone numbers, e-mails and other identifiers from many or
    long texts without reading them, or to know what to redact. The default model knows personal
    data only: given names and surnames, addresses, phones, e-mails, account and document numbers;
    it does not find organisations, products or places in general. `known_labels` in the answer, and
    the error for an unknown label, list exactly what the model finds. Long texts are read whole.
    Up to 1,000 texts a call.
    """
    context = tool_context(ctx)
    items = to_items(texts, "texts", context)
    params = wire.ExtractParams(
        labels=labels or None, options=wire.ExtractOptions(threshold=threshold)
    )
    response = await context.client.extract(model, items, params, progress=reporter(ctx))
    known = None
    if labels is None:
        known = (await context.client.model(response.model)).labels
    return reply(_result(response, known, context))


def _result(
    response: wire.ExtractResponse, known: list[str] | None, context: ToolContext
) -> ExtractResult:
    rows = [
        ItemEntities(
            index=index,
            id=item.id,
            entities=[
                Found(
                    text=one.text,
                    label=one.label,
                    score=short(one.score),
                    start=one.start,
                    end=one.end,
                )
                for one in item.entities
            ],
            truncated=item.truncated or None,
            error=item.error.message if item.error else None,
        )
        for index, item in enumerate(response.items)
        if item.entities or item.error
    ]
    kept, omitted = fitting(rows, context.config.max_result_tokens)
    return ExtractResult(
        model=response.model,
        items=kept,
        num_entities=sum(len(row.entities) for row in rows),
        num_texts_without=len(response.items) - len(rows),
        known_labels=known,
        omitted=omitted or None,
    )
