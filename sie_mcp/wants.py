"""What a request asks for, read from its body. Knows the wire contract alone."""

from sie_mcp import wire
from sie_mcp.connection import Want


def lora_of(request: wire.Request) -> str | None:
    """Return the low-rank adapter that a request names; "" is none, also none by role."""
    if isinstance(request, wire.ScoreRequest):
        return request.options.lora
    return request.params.options.lora


def want_of(model: str, request: wire.Request, priority: str) -> Want:
    """Return what decides which worker gets a request, and by which way."""
    return Want(model, lora_of(request) or None, priority=priority)
