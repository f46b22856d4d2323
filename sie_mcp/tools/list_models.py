"""list_models: what there is to choose from."""

from typing import Annotated, Any, Literal

import pydantic
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from sie_mcp import wire
from sie_mcp.tools.context import tool_context
from sie_mcp.tools.reply import fitting, reply

_FOR_TOOL = {"embed": "encode", "rerank": "score", "extract_entities": "extract"}


class ModelRow(pydantic.BaseModel):
    """One model."""

    name: str
    gives: list[str]
    state: wire.ModelState
    default_for: list[str] | None = None
    megabytes: int | None = None
    max_tokens: int | None = None
    labels: list[str] | None = None
    about: str | None = None
    error: str | None = None


class ModelsResult(pydantic.BaseModel):
    """The models, those on the device first."""

    models: list[ModelRow]
    memory_megabytes: dict[str, int]
    omitted: int | None = None


async def list_models(
    ctx: Context[Any, Any],
    usable_for: Annotated[
        Literal["embed", "rerank", "extract_entities"] | None,
        Field(description="Only models for this tool"),
    ] = None,
) -> Annotated[CallToolResult, ModelsResult]:
    """List the models that the other tools can use, and which of them are in memory now.

    Use it only when the default model does not fit: the other tools choose well by themselves. Any
    other model of a supported family works too by its hub id (org/name), without being listed.
    """
    context = tool_context(ctx)
    listing = await context.client.models()
    primitive = _FOR_TOOL[usable_for] if usable_for else None
    rows = [
        _row(card, listing.defaults)
        for card in sorted(listing.models, key=lambda one: (not one.loaded, one.name))
        if primitive is None or primitive in card.primitives
    ]
    kept, omitted = fitting(rows, context.config.max_result_tokens)
    memory = {
        name.removesuffix("_bytes"): round(size / 1e6) for name, size in listing.memory.items()
    }
    return reply(ModelsResult(models=kept, memory_megabytes=memory, omitted=omitted or None))


def _row(card: wire.ModelCard, defaults: dict[str, str]) -> ModelRow:
    size = card.resident_bytes or card.size_bytes
    return ModelRow(
        name=card.name,
        gives=card.outputs,
        state=card.state,
        default_for=[one for one, name in defaults.items() if name == card.name] or None,
        megabytes=round(size / 1e6) if size else None,
        max_tokens=card.max_sequence_length,
        labels=card.labels,
        about=card.description,
        error=card.last_error.message if card.last_error else None,
    )
