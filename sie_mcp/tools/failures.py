"""Items that failed while others did not: reported one by one, or raised when none is left."""

from collections.abc import Mapping, Sequence

from sie_mcp import wire
from sie_mcp.errors import SieError, error_classes
from sie_mcp.tools.result import Result

MAX_LISTED = 5


class Failure(Result):
    """Why one text has no result."""

    index: int
    error: str


class Failures(Result):
    """How many texts have no result, and the first of them."""

    count: int
    first: list[Failure]


def raise_if_all_failed(failed: Mapping[int, wire.ItemError], num_items: int) -> None:
    """Raise the first failure, as the error it is, when no item succeeded."""
    if failed and len(failed) == num_items:
        first = failed[min(failed)]
        raise error_classes().get(first.code, SieError)(first.message)


def failures(failed: Mapping[int, wire.ItemError], indices: Sequence[int]) -> Failures | None:
    """List failures under the caller's own indices; None when there are none."""
    if not failed:
        return None
    first = [
        Failure(index=indices[place], error=failed[place].message)
        for place in sorted(failed)[:MAX_LISTED]
    ]
    return Failures(count=len(failed), first=first)
