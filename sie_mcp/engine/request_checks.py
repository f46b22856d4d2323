"""What a request may hold and about how much it is, before anything is done for it. Pure."""

from dataclasses import dataclass

from sie_mcp import wire
from sie_mcp.catalogue.entries import Primitive
from sie_mcp.errors import InvalidInput
from sie_mcp.wire import Request

# For choosing among devices and refusing early only: what runs is counted in real tokens.
CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 256
MAX_ESTIMATE = 1 << 20  # Of one text: as good as none.
# For refusing before a body is read what would be refused anyway.
MOST_CHARS_PER_TOKEN = 8
LEAST_LIMIT_TOKENS = 128
# What takes less than a millisecond to read and to answer.
SMALL_ITEMS, SMALL_CHARS = 4, 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold, and how long it may take."""

    max_items: int
    max_item_chars: int
    request_timeout_s: float
    allows_local_models: bool = True
    max_image_bytes: int = 20 * 1024 * 1024
    max_request_tokens: int = 2_000_000


def primitive_of(request: Request) -> Primitive:
    """Return which primitive a request is for."""
    if isinstance(request, wire.EncodeRequest):
        return "encode"
    return "score" if isinstance(request, wire.ScoreRequest) else "extract"


def check(request: Request, limits: Limits) -> None:
    """Refuse too many items, and texts that are missing, blank or too long.

    Of an extraction a text may be blank here: `check_fit` knows whether the model takes it.

    Raises:
        InvalidInput: naming the item and what would work.
    """
    check_count(len(request.items), limits)
    check_tokens(_least_tokens(request), limits)
    for index, item in enumerate(request.items):
        if not _is_plain(item, limits):
            _check_item(item, f"items[{index}]", limits)
    if isinstance(request, wire.ScoreRequest):
        _check_item(request.query, "query", limits)
    if not isinstance(request, wire.ExtractRequest):
        check_blank(request)


def check_blank(request: Request) -> None:
    """Refuse blank texts.

    Raises:
        InvalidInput: naming the item.
    """
    for index, item in enumerate(request.items):
        if _is_blank(item):
            raise _blank(f"items[{index}]")
    if isinstance(request, wire.ScoreRequest) and _is_blank(request.query):
        raise _blank("query")


def check_count(num_items: int, limits: Limits) -> None:
    """Refuse too many items.

    Raises:
        InvalidInput: naming the limit.
    """
    if num_items > limits.max_items:
        raise InvalidInput(
            f"{num_items} items are over the limit of {limits.max_items} (max_items); "
            "send them in several requests"
        )


def check_tokens(num_tokens: int, limits: Limits) -> None:
    """Refuse a request that is too much for one.

    Raises:
        InvalidInput: naming the limit.
    """
    if num_tokens > limits.max_request_tokens:
        raise InvalidInput(
            f"{num_tokens:,} tokens are over the limit of {limits.max_request_tokens:,} "
            "(max_request_tokens); send them in several requests"
        )


def all_items(request: Request) -> list[wire.Item]:
    """Return a request's items, its query too."""
    query = [request.query] if isinstance(request, wire.ScoreRequest) else []
    return [*request.items, *query]


def _is_blank(item: wire.Item) -> bool:
    text = item.text
    return text is not None and (not text or text.isspace())


def _blank(where: str) -> InvalidInput:
    return InvalidInput(f"{where}.text is empty; send at least one character that is not a space")


def _is_plain(item: wire.Item, limits: Limits) -> bool:
    """Whether an item is a text and nothing else: most are, and need no closer look."""
    has_more = item.images is not None or item.input_ids is not None
    return item.text is not None and not has_more and len(item.text) <= limits.max_item_chars


def _check_item(item: wire.Item, where: str, limits: Limits) -> None:
    if item.spans is not None and item.text is None:
        raise InvalidInput(f"{where} has spans and no text; they are places in its text")
    if item.input_ids is not None:
        _check_ids(item, item.input_ids, where, limits)
    elif item.images is None:
        _check_text(item, where, limits)
    elif item.text is not None:
        raise InvalidInput(f"{where} has a text and an image; send one of the two")
    elif len(item.images) > 1:
        raise InvalidInput(f"{where} has {len(item.images)} images; send one an item")
    elif len(item.images[0].data) > limits.max_image_bytes:
        raise InvalidInput(
            f"{where}.images has {len(item.images[0].data):,} bytes, the limit is "
            f"{limits.max_image_bytes:,} (max_image_bytes); send it smaller"
        )


def _check_ids(item: wire.Item, ids: list[int], where: str, limits: Limits) -> None:
    if item.text is not None or item.images is not None:
        raise InvalidInput(f"{where} has input_ids and something else; send one of them")
    if len(ids) > limits.max_item_chars:
        raise InvalidInput(
            f"{where} has {len(ids):,} ids, the limit is {limits.max_item_chars:,} "
            "(max_item_chars); split it"
        )


def _check_text(item: wire.Item, where: str, limits: Limits) -> None:
    if item.text is None:
        raise InvalidInput(f"{where} has no text; send {{'text': '…'}}, or an image")
    if len(item.text) > limits.max_item_chars:
        raise InvalidInput(
            f"{where}.text has {len(item.text):,} characters, the limit is "
            f"{limits.max_item_chars:,} (max_item_chars); split it"
        )


def estimated_tokens(request: Request, max_each: int | None = None) -> int:
    """Return about how many tokens a request has, before it is tokenised.

    Args:
        request: Of any primitive.
        max_each: What the model cuts a text off at; an extraction reads on in windows.
    """
    query = len(request.query.text or "") if isinstance(request, wire.ScoreRequest) else 0
    if max_each is None or isinstance(request, wire.ExtractRequest):
        max_each = MAX_ESTIMATE
    return sum(
        [
            IMAGE_TOKENS
            if one.images
            else min((query + _num_chars(one)) // CHARS_PER_TOKEN + 1, max_each)
            for one in request.items
        ]
    )


def is_small(request: Request) -> bool:
    """Whether a request is a few short texts to encode: nothing waits long for that."""
    return (
        isinstance(request, wire.EncodeRequest)
        and len(request.items) <= SMALL_ITEMS
        and all(one.images is None for one in request.items)
        and sum(_num_chars(one) for one in request.items) <= SMALL_CHARS
    )


def _least_tokens(request: Request) -> int:
    """Return what a request has at least, whatever its language and its model's limit."""
    return sum(
        [min(_num_chars(one) // MOST_CHARS_PER_TOKEN, LEAST_LIMIT_TOKENS) for one in request.items]
    )


def _num_chars(item: wire.Item) -> int:
    """Count an item's characters, or about as many as its ids stand for."""
    num_chars = len(item.text or "")
    return (
        num_chars if item.input_ids is None else num_chars + len(item.input_ids) * CHARS_PER_TOKEN
    )
