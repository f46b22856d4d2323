"""Names of low-rank adapters among those of models: an adapter belongs to its base."""

from sie_mcp import wire
from sie_mcp.wire import Request


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


def lora_of(request: Request) -> str | None:
    """Return the adapter that a request asks for."""
    if isinstance(request, wire.ScoreRequest):
        return request.options.lora
    return request.params.options.lora
