"""The model listing: what the catalogue knows, joined with what is on the devices."""

from collections.abc import Mapping, Sequence

from sie_mcp import wire
from sie_mcp.engine.lane import Lane
from sie_mcp.wire_fields import ModelState

# Of one model on several devices the card shows the best.
_RANK: dict[ModelState, int] = {"available": 0, "failed": 1, "host": 2, "loading": 3, "loaded": 4}


def merged(
    known: Mapping[str, wire.ModelCard], lanes: Sequence[Lane], now_s: float
) -> dict[str, wire.ModelCard]:
    """Return a card for every model of the catalogue, and every one seen on a device."""
    cards = dict(known)
    for name, card in _on_devices(lanes, now_s).items():
        catalogued = known.get(name)
        if catalogued is None or card.state in ("loaded", "host"):
            cards[name] = card
        else:
            update = {
                "state": card.state,
                "last_error": card.last_error,
                "residents": card.residents,
            }
            cards[name] = catalogued.model_copy(update=update)
    return cards


def _on_devices(lanes: Sequence[Lane], now_s: float) -> dict[str, wire.ModelCard]:
    best: dict[str, wire.ModelCard] = {}
    for lane in lanes:
        for name, card in lane.residency.cards().items():
            if name not in best or _RANK[card.state] > _RANK[best[name].state]:
                best[name] = card
    accounts = [one for lane in lanes for one in lane.models(now_s)]
    for name, card in best.items():
        residents = [one for one in accounts if one.name == name]
        card.residents = residents
        card.host_bytes = sum(lane.residency.swaps.host_bytes(name) for lane in lanes)
        card.resident_bytes = sum(one.size_bytes for one in residents if one.state == "loaded")
    return best
