"""How many requests one of a door's stands for, in a header between it and its worker."""

from collections.abc import Mapping
from dataclasses import dataclass

from sie_mcp.dialects.table import OPERATIONS
from sie_mcp.errors import error_classes
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

    def is_told_again(self, error_code: str | None) -> bool:
        """Whether others follow that say the same: a refusal of all is then no answer to any."""
        if error_code is None or not self.share.is_first_try:
            return False
        kind = error_classes().get(error_code)
        return kind is not None and issubclass(kind, APART)


def share_in_header(name: str, share: Share) -> str:
    """Write down what a request stands for."""
    return f"{name} {share.number} {'first' if share.is_first_try else 'last'}"


def read_share(headers: Mapping[str, str]) -> Counted:
    """Read it; what is no share is one request."""
    name, _, rest = headers.get(SHARE_HEADER, "").partition(" ")
    number, _, way = rest.partition(" ")
    if name not in _NAMES or not number.isdigit():
        return Counted("encode")
    least = max(1, min(int(number), MAX_JOINED_ITEMS))
    return Counted(name, Share(least, is_first_try=way == "first"))
