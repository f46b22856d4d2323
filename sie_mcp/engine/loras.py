"""Names of low-rank adapters among those of models: an adapter belongs to its base."""

from sie_mcp.engine.registry import Registry
from sie_mcp.errors import InvalidInput
from sie_mcp.wants import lora_of
from sie_mcp.wire import ModelCard, Request


class LoraName(str):
    """What an adapter on a base is kept under; tells both."""

    __slots__ = ("base", "lora")

    base: str
    lora: str

    def __new__(cls, base: str, lora: str) -> "LoraName":
        """Join both names."""
        name = super().__new__(cls, f"{base} + {lora}")
        name.base, name.lora = base, lora
        return name


def other_lora(request: Request, card: ModelCard, registry: Registry) -> str | None:
    """Return the adapter that a request asks for and that has to be brought up.

    None: no adapter, or one of the model's own, which are there when it is.

    Raises:
        InvalidInput: neither one of the model's own nor a name that can be found.
    """
    name = lora_of(request)
    if not name or name in card.loras:
        return None
    if card.loras and not registry.is_findable(name):
        raise InvalidInput(
            f"{card.name} has no adapter {name!r} of its own; it has: {', '.join(card.loras)}; "
            'or name a hub id (org/name) or a folder, or "" for none'
        )
    return name
