"""All that an agent may want to know of one model, before it names it in a call."""

import contextlib
from collections.abc import Sequence

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InvalidInput, ModelNotFound
from sie_mcp.tools.result import Result, estimate_tokens, or_none

AUTO = "auto"
_UP = ("loaded", "host")
_PROBE = "a"
# What a card costs beside its labels.
_CARD_TOKENS = 600
MAX_DESCRIPTION_CHARS = 1_000
MAX_LORAS = 20


class ModelResult(Result):
    """A model; `does` are the primitives: encode (embed), score (rerank), extract."""

    name: str
    does: list[str]
    outputs: list[str] | None = None
    dims: dict[str, int] | None = None
    max_tokens: int | None = None
    size_mb: int | None = None
    licence: str | None = None
    state: str
    error: str | None = None
    device: str | None = None
    about: str | None = None
    decisions: dict[str, str] | None = None
    loras: list[str] | None = None
    labels: list[str] | None = None
    more_labels: int | None = None


async def describe_model(client: EngineClient, name: str, max_tokens: int) -> ModelResult:
    """Describe one model, with as many of its labels as fit.

    Raises:
        ModelNotFound: no such model.
    """
    card = await client.model(name)
    labels = _fitting(card.labels or [], max_tokens - _CARD_TOKENS)
    return ModelResult(
        name=card.name,
        does=card.primitives,
        outputs=card.outputs or None,
        dims=card.dims or None,
        max_tokens=card.max_sequence_length,
        size_mb=card.size_bytes and round(card.size_bytes / 1_000_000),
        licence=card.licence,
        state=card.state,
        error=card.last_error and card.last_error.message[:MAX_DESCRIPTION_CHARS],
        device=card.device,
        about=card.description and card.description[:MAX_DESCRIPTION_CHARS],
        decisions=card.decisions or None,
        loras=card.loras[:MAX_LORAS] or None,
        labels=labels or None,
        more_labels=or_none(len(card.labels or []) - len(labels)),
    )


async def card_of(client: EngineClient, model: str, primitive: str) -> wire.ModelCard | None:
    """Describe the model that will answer; None when the worker has no default yet."""
    if model != AUTO:
        return await client.model(model)
    listing = await client.models()
    name = listing.defaults.get(primitive)
    return next((card for card in listing.models if card.name == name), None)


async def loaded_card(
    client: EngineClient, model: str, primitive: str, progress: Progress | None = None
) -> wire.ModelCard | None:
    """Describe the model that will answer, brought up if need be: only then is all of it known.

    None when the worker has no default.

    Raises:
        ModelNotFound: no such model.
    """
    try:
        card = await card_of(client, model, primitive)
    except ModelNotFound:
        card = None  # A hub id or folder that nobody has used yet.
    if card is None and model == AUTO:
        return None
    if card is not None and (card.state in _UP or "extract" not in card.primitives):
        return card
    name = model if card is None else card.name
    # What a model cannot do it says after it is loaded.
    with contextlib.suppress(InvalidInput):
        await client.extract(name, [wire.Item(text=_PROBE)], progress=progress)
    return await client.model(name)


def _fitting(labels: Sequence[str], max_tokens: int) -> list[str]:
    shown: list[str] = []
    for label in labels:
        max_tokens -= estimate_tokens(label) + 1
        if max_tokens < 0:
            break
        shown.append(label)
    return shown
