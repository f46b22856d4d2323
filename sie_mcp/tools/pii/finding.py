"""Personal data of many texts: one call of `extract`, patterns over the same texts, joined."""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.errors import InferenceError, InvalidInput
from sie_mcp.tools.failures import raise_if_all_failed
from sie_mcp.tools.inputs import Inputs
from sie_mcp.tools.model_cards import loaded_card
from sie_mcp.tools.pii.kinds import ASKED, check_kinds, kind_of
from sie_mcp.tools.pii.patterns import find_by_pattern, pattern_kinds
from sie_mcp.tools.pii.spans import PiiSpan, join_spans


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found.

    Attributes:
        model: Who looked, beside the patterns.
        spans: Regions of each text that was read, under its place in the list of texts.
        failed: Places and reasons of texts that were not read, or not to their end.
    """

    model: str
    spans: dict[int, list[PiiSpan]]
    failed: dict[int, wire.ItemError]


async def find_pii(
    client: EngineClient,
    model: str,
    inputs: Inputs,
    kinds: Sequence[str] | None,
    *,
    threshold: float | None,
    progress: Progress,
) -> Finding:
    """Look for personal data of some kinds, or of all.

    Raises:
        InvalidInput: an unknown kind, or a model that finds no entities.
    """
    card = await loaded_card(client, model, "extract", progress)
    labels = list(ASKED) if card is not None and card.labels is None else None
    known = labels or (card.labels if card is not None else None) or []
    wanted = check_kinds(kinds, [*map(kind_of, known), *pattern_kinds()])
    params = wire.ExtractParams(labels=labels, options=wire.ExtractOptions(threshold=threshold))
    answer = await client.extract(model, inputs.items, params, progress=progress)
    failed = {place: item.error for place, item in enumerate(answer.items) if item.error}
    raise_if_all_failed(failed, len(inputs.items))
    if any(item.classifications for item in answer.items):
        raise InvalidInput(
            f"{answer.model} labels whole texts and finds no entities; name another model "
            "(list_models)"
        )
    failed |= _not_read(answer)
    spans = await anyio.to_thread.run_sync(_join, answer, inputs.texts, frozenset(failed), wanted)
    return Finding(answer.model, spans, failed)


def _not_read(answer: wire.ExtractResponse) -> dict[int, wire.ItemError]:
    """A text of which the end was not read is a failure: what is there is unknown."""
    return {
        place: wire.ItemError(
            code="INPUT_TOO_LONG", message=f"was read to character {item.read_to} only; split it"
        )
        for place, item in enumerate(answer.items)
        if item.truncated
    }


def _join(
    answer: wire.ExtractResponse,
    texts: list[str],
    failed: frozenset[int],
    wanted: set[str] | None,
) -> dict[int, list[PiiSpan]]:
    found = {}
    for place, (item, text) in enumerate(zip(answer.items, texts, strict=True)):
        if place in failed:
            continue
        spans = [_checked(entity, text) for entity in item.entities] + find_by_pattern(text)
        kept = [span for span in spans if wanted is None or span.kind in wanted]
        found[place] = join_spans(text, kept)
    return found


def _checked(entity: wire.Entity, text: str) -> PiiSpan:
    """Return an entity as a span that is known to lie where it says.

    Raises:
        InferenceError: it does not; masking by it would leave the data in the text.
    """
    if not entity.start < entity.end <= len(text) or text[entity.start : entity.end] != entity.text:
        raise InferenceError(
            f"an entity of the model does not stand at {entity.start}-{entity.end}, as it says; "
            "report this model"
        )
    kind = kind_of(entity.label)
    return PiiSpan(entity.start, entity.end, kind, entity.score, by_pattern=False)
