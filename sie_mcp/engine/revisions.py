"""Which numbers a model gives now: the revision of what the devices hold, and of its adapter."""

from collections.abc import Sequence

from sie_mcp.engine.lane import Lane
from sie_mcp.engine.loras import LoraName


def revision_of(lanes: Sequence[Lane], model: str, lora: str | None) -> str | None:
    """Return it; None where no device has both, or devices have them in two revisions."""
    found = {_on(lane, model, lora) for lane in lanes} - {None}
    return found.pop() if len(found) == 1 else None


def joined(revisions: Sequence[str | None]) -> str | None:
    """Return the revision of a model together with its adapter; None where one is not known."""
    known = [one for one in revisions if one is not None]
    return "+".join(known) if len(known) == len(revisions) else None


def _on(lane: Lane, model: str, lora: str | None) -> str | None:
    card = lane.residency.card(model)
    if card is None:
        return None
    if not lora or lora in card.loras:
        return card.revision
    added = lane.residency.card(LoraName(model, lora))
    return None if added is None else joined([card.revision, added.revision])
