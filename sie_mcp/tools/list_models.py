"""The tool `list_models`: what is known, loaded, and what for. No model runs."""

from typing import Annotated, Literal

from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.tools.context import ToolCall, tool_context
from sie_mcp.tools.result import LimitedResult, Result, compact, num_fitting, or_none

MAX_LABELS = 40
MAX_DESCRIPTION_CHARS = 160


class ModelLine(Result):
    """One model; `does` are the primitives: encode (embed), score (rerank), extract."""

    name: str
    does: list[str]
    outputs: list[str] | None = None
    loaded: bool
    state: str | None = None
    size_mb: int | None = None
    max_tokens: int | None = None
    labels: list[str] | None = None
    more_labels: int | None = None
    about: str | None = None


class ListResult(LimitedResult):
    """The models, those of the catalogue first; `defaults` is what "auto" means."""

    defaults: dict[str, str]
    models: list[ModelLine]
    hint: str | None = None


async def describe_models(
    client: EngineClient, primitive: str | None, max_tokens: int
) -> ListResult:
    """List the models that offer a primitive, or all."""
    listing = await client.models()
    cards = [card for card in listing.models if primitive is None or primitive in card.primitives]
    lines = [_line(card) for card in cards]
    shown = lines[: num_fitting(lines, max_tokens)]
    omitted = len(lines) - len(shown)
    return ListResult(
        defaults={
            name: model
            for name, model in listing.defaults.items()
            if primitive is None or name.partition("_")[0] == primitive
        },
        models=shown,
        omitted=or_none(omitted),
        hint="name a primitive to see fewer" if omitted else None,
    )


def _line(card: wire.ModelCard) -> ModelLine:
    about = card.last_error.message if card.last_error else card.description
    return ModelLine(
        name=card.name,
        does=card.primitives,
        outputs=card.outputs or None,
        loaded=card.loaded,
        state=card.state if card.state in ("loading", "failed") else None,
        size_mb=card.size_bytes and round(card.size_bytes / 1_000_000),
        max_tokens=card.max_sequence_length,
        labels=card.labels[:MAX_LABELS] if card.labels else None,
        more_labels=or_none(len(card.labels or []) - MAX_LABELS)
        if len(card.labels or []) > MAX_LABELS
        else None,
        about=about and about[:MAX_DESCRIPTION_CHARS],
    )


async def list_models(
    ctx: ToolCall,
    primitive: Annotated[
        Literal["encode", "score", "extract"] | None,
        Field(description="encode: embed, classify; score: rerank, filter; extract: entities."),
    ] = None,
) -> Annotated[CallToolResult, ListResult]:
    """List the small models that the other tools can use, and which labels an extractor knows.

    Use it only to choose another model than the default, or to see labels before
    extract_entities: every tool works with model="auto". Any BERT-family model of the hub also
    works by its id (org/name), though it is not listed before its first use.

    Returns the defaults and for each model: name, what it does, whether it is loaded, its size in
    MB, how many tokens it reads, its labels, and a line about it.
    """
    context = tool_context(ctx)
    return compact(
        await describe_models(context.client, primitive, context.list_tokens),
        context.config.max_result_tokens,
    )
