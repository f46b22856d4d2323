"""What a request may hold and about how much it is, before anything is done for it. Pure."""

from dataclasses import dataclass

from sie_mcp import wire
from sie_mcp.catalogue.entries import Primitive
from sie_mcp.errors import InvalidInput
from sie_mcp.wire import Request

# For choosing among devices only: what runs is counted in real tokens.
CHARS_PER_TOKEN = 4
# For refusing early what would be refused anyway.
MOST_CHARS_PER_TOKEN = 8
LEAST_LIMIT_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold, and how long it may take."""

    max_items: int
    max_item_chars: int
    request_timeout_s: float
    allows_local_models: bool = True


def primitive_of(request: Request) -> Primitive:
    """Return which primitive a request is for."""
    if isinstance(request, wire.EncodeRequest):
        return "encode"
    return "score" if isinstance(request, wire.ScoreRequest) else "extract"


def check(request: Request, limits: Limits) -> None:
    """Refuse too many items, and texts that are missing, blank or too long.

    Raises:
        InvalidInput: naming the item and what would work.
    """
    if len(request.items) > limits.max_items:
        raise InvalidInput(
            f"{len(request.items)} items are over the limit of {limits.max_items} (max_items); "
            "send them in several requests"
        )
    for index, item in enumerate(request.items):
        _check_text(item, f"items[{index}]", limits)
    if isinstance(request, wire.ScoreRequest):
        _check_text(request.query, "query", limits)


def _check_text(item: wire.Item, where: str, limits: Limits) -> None:
    if item.text is None:
        raise InvalidInput(f"{where} has no text; send {{'text': '…'}}")
    if not item.text.strip():
        raise InvalidInput(
            f"{where}.text is empty; send at least one character that is not a space"
        )
    if len(item.text) > limits.max_item_chars:
        raise InvalidInput(
            f"{where}.text has {len(item.text):,} characters, the limit is "
            f"{limits.max_item_chars:,} (max_item_chars); split it"
        )


def estimated_tokens(request: Request) -> int:
    """Return about how many tokens a request has, before it is tokenised."""
    items = list(request.items)
    query = len(request.query.text or "") if isinstance(request, wire.ScoreRequest) else 0
    return sum((query + len(one.text or "")) // CHARS_PER_TOKEN + 1 for one in items)


def least_tokens(request: Request) -> int:
    """Return what a request has at least, whatever its language and its model's limit."""
    return sum(
        min(len(one.text or "") // MOST_CHARS_PER_TOKEN, LEAST_LIMIT_TOKENS)
        for one in request.items
    )
