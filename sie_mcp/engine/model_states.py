"""The state of every model of one device, as its card says it. Reads alone: changes nothing."""

from collections.abc import Mapping

from sie_mcp import wire
from sie_mcp.engine.loader import OnDevice
from sie_mcp.engine.loads import Loads
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.swaps import Swaps


def cards_of(
    on_device: Mapping[str, OnDevice], ledger: Ledger, swaps: Swaps, loads: Loads
) -> dict[str, wire.ModelCard]:
    """Describe every model that is up, in host memory, coming up, or failed."""
    cards = {
        name: adapter.card.model_copy(
            update={"state": "host", "host_bytes": swaps.host_bytes(name)}
        )
        for name, adapter in swaps.warm.items()
    }
    cards |= loads.cards()
    for name, adapter in on_device.items():
        resident = ledger.get(name)
        update = {
            "loaded": True,
            "state": "loaded",
            "resident_bytes": resident.size_bytes if resident else 0,
            "host_bytes": swaps.host_bytes(name),
        }
        cards[name] = adapter.card.model_copy(update=update)
    return cards


def account_of(ledger: Ledger, swaps: Swaps) -> dict[str, int]:
    """Return the account in bytes, host memory included."""
    return {
        "budget_bytes": ledger.budget_bytes,
        "reserved_bytes": ledger.reserved_bytes,
        "resident_bytes": ledger.resident_bytes,
        "free_bytes": ledger.free_bytes,
        "host_budget_bytes": swaps.ledger.budget_bytes,
        "host_bytes": swaps.ledger.used_bytes,
    }
