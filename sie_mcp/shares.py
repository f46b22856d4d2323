"""How many requests one of a door's stands for, in a header between it and its worker."""

from collections.abc import Mapping
from dataclasses import dataclass

from sie_mcp.dialects.table import OPERATIONS
from sie_mcp.errors import InvalidInput, error_classes
from sie_mcp.joining import ALONE, APART, MAX_JOINED_ITEMS, Share

SHARE_HEADER = "X-SIE-Share"
_NAMES = frozenset({"encode", *(one.name for one in OPERATIONS)})


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted of a request.

    Attributes:
        name: Of the figures.
        share: What it stands for.
    """

    name: str
    share: Share = ALONE

    def num_answered(self, error_code: str | None) -> int:
        """Return how many requests an answer is one to; none where others follow for each."""
        kind = error_classes().get(error_code or "")
        is_apart = kind is not None and issubclass(kind, APART)
        if self.share.is_first_try and is_apart:
            return 0
        if self.share.is_one and (kind is None or issubclass(kind, InvalidInput)):
            return 1
        return self.share.number


def share_in_header(name: str, share: Share) -> str:
    """Write down what a request stands for."""
    way = "first" if share.is_first_try else "one" if share.is_one else "last"
    return f"{name} {share.number} {way}"


def read_share(headers: Mapping[str, str]) -> Counted:
    """Read it; what is no share is one request."""
    name, _, rest = headers.get(SHARE_HEADER, "").partition(" ")
    number, _, way = rest.partition(" ")
    if name not in _NAMES or not number.isdigit():
        return Counted("encode")
    least = max(1, min(int(number), MAX_JOINED_ITEMS))
    return Counted(name, Share(least, is_first_try=way == "first", is_one=way == "one"))
