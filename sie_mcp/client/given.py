"""What callers of the programs' client may give: one item or many, a side, a deadline."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import anyio

from sie_mcp import wire
from sie_mcp.client.results import Item
from sie_mcp.errors import DeadlineExceeded

Side = Literal["query", "document"]
Items = Item | Iterable[Item]

AUTO = "auto"


def as_item(item: Item) -> wire.Item:
    """Return a text as an item."""
    return wire.Item(text=item) if isinstance(item, str) else item


def as_items(items: Items) -> list[wire.Item]:
    """Return one item or several as a list."""
    if isinstance(items, str | wire.Item):
        return [as_item(items)]
    return [as_item(item) for item in items]


@contextmanager
def within(deadline_s: float | None) -> Iterator[None]:
    """Limit what is awaited inside.

    Raises:
        DeadlineExceeded: it took longer.
    """
    with anyio.move_on_after(deadline_s) as scope:
        yield
    if scope.cancelled_caught:
        raise DeadlineExceeded(
            f"the call took longer than its deadline_s={deadline_s}; give it more time, or send "
            "fewer items at once"
        )
